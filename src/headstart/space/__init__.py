"""Search spaces: stages → algorithms → hyper-parameters; pipelines; their encoding as arrays."""

from headstart.space.candidates import Candidates, Given, Pool
from headstart.space.encoded import Encoded
from headstart.space.parameters import Categorical, Float, Integer, Parameter
from headstart.space.pipeline import Pipeline, Value
from headstart.space.space import Box, PipelineSpace
from headstart.space.stages import Algorithm, Stage

__all__ = [
    "Algorithm",
    "Box",
    "Candidates",
    "Categorical",
    "Encoded",
    "Float",
    "Given",
    "Integer",
    "Parameter",
    "Pipeline",
    "PipelineSpace",
    "Pool",
    "Stage",
    "Value",
]
