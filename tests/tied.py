"""A space in which what a table makes equal is tied to other stages."""

from headstart.space import Algorithm, Categorical, PipelineSpace, Stage

_DENSE = {"handle_unknown": "ignore", "sparse_output": False}


def tied_space():
    """Doing nothing to missing numbers or categories is for trees alone, and only without scaling."""
    impute = "sklearn.impute:SimpleImputer"
    return PipelineSpace(
        "tied",
        [
            Stage(
                "imputation",
                [
                    Algorithm("none"),
                    Algorithm("mean", impute, [Categorical("add_indicator", (False, True))], {"strategy": "mean"}),
                    Algorithm("zero", impute, fixed={"strategy": "mean", "missing_values": 0}),
                ],
                columns="numeric",
            ),
            Stage(
                "encoding",
                [Algorithm("native"), Algorithm("one_hot", "sklearn.preprocessing:OneHotEncoder", fixed=_DENSE)],
                columns="categorical",
            ),
            Stage("scaling", [Algorithm("none"), Algorithm("standard", "sklearn.preprocessing:StandardScaler")]),
            Stage(
                "estimator",
                [
                    Algorithm("tree", "sklearn.tree:DecisionTreeClassifier", [Categorical("max_depth", (1, 2, 3))]),
                    Algorithm("linear", "sklearn.linear_model:RidgeClassifier"),
                ],
            ),
        ],
        forbidden=[
            {"imputation": ["none"], "estimator": ["linear"]},
            {"imputation": ["none"], "scaling": ["standard"]},
            {"encoding": ["native"], "estimator": ["linear"]},
            {"encoding": ["native"], "scaling": ["standard"]},
        ],
    )
