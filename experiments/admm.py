"""ADMM (Liu et al., AAAI 2020): what splitting is worth, what constraints are, and what its settings do.

==========================  ==================================================================================
figure A9, tables A4, A5    `admm_race`: the artificial objective, against one search of all variables;
                            `admm_tables`: the same on raw tables
figure A8                   `admm_budgets`: fixed and adaptive budgets of the sub-problems
figures A1 to A4            `admm_solvers`: sub-solvers
figure A6                   `admm_sensitivity`: ρ and f̂, one at a time
figures 2 and 3             `admm_bounds`: constraints beside filtering, recorded training seconds;
                            `admm_credit`: the same on credit.g, latency and disparity between ages
figures 1 and A7            `admm_live`: on raw tables, against flat search, Mosaic, TPOT and random search
==========================  ==================================================================================
"""

from __future__ import annotations

from experiments.bounds import LiveBounds, RecordedBounds
from experiments.experiment import Experiment
from experiments.live_duels import LiveDuels
from experiments.race import LiveRace, Race

JOINT = {"JOPT(BO)": "gp"}
ADAPTIVE = {"AdADMM(BO,Ba)": "admm(most=256)", "AdADMM(BO,BO)": "admm(z=gp, most=256)"}
AS_PRINTED = "admm(z='bandit(prior=10, drawn=True)', most=256)"
RACE = Race({**JOINT, "TPE of Optuna": "optuna", **ADAPTIVE, "AdADMM(BO,Ba), bandit as printed": AS_PRINTED})

BUDGETS = Race(
    {
        "AdADMM-F16(BO,BO)": "admm(z=gp, most=256)",
        "AdADMM-F8(BO,BO)": "admm(z=gp, growth=8, most=256)",
        **{f"ADMM{n}(BO,BO)": f"admm(z=gp, budget={n}, growth=0)" for n in (16, 32, 64, 128)},
    },
    seeds=5,
)

_THETA = ("random", "direct_search", "trust_region")
_Z = ("bandit", "gp", "enumeration", "successive_halving")
SOLVERS = Race(
    {
        "BO, random": "admm(z=random)",
        **{f"{theta.replace('_', ' ')}, random": f"admm(theta={theta}, z=random)" for theta in _THETA},
        **{f"BO, {z.replace('_', ' ')}": f"admm(z={z})" for z in _Z},
    },
    seeds=5,
)

SENSITIVITY = Race(
    {
        "default: ρ = 1, f̂ by what was seen": "admm",
        **{f"ρ = {rho:g}": f"admm(rho={rho:g})" for rho in (0.001, 0.01, 0.1, 10)},
        **{f"f̂ = {upper:g}": f"admm(z='bandit(upper={upper:g})', loss_scale=1)" for upper in (1, 2, 4, 8)},
    },
    seeds=5,
)

TABLES = LiveRace({**JOINT, "AdADMM(BO,Ba)": "admm", "AdADMM(BO,BO)": "admm(z=gp)", "TPE of Optuna": "optuna"})
BOUNDS = RecordedBounds()
CREDIT = LiveBounds("credit.g", "disparity(age: 30, 40, 50)")
LIVE = LiveDuels(
    ("admm", "forest", "mosaic", "tpot", "random"),
    space="admm_small",
    tables=3,
    seeds=1,
    seconds=30.0,
    metric="roc_auc",
    classes=2,
)

EXPERIMENTS = {
    "admm_race": Experiment(
        "the artificial objective, against one search of all variables (tables A4, A5)", RACE, "tensor_oboe", seconds=64
    ),
    "admm_tables": Experiment(
        "raw tables, against one search of all variables (tables A4, A5)", TABLES, "tensor_oboe", seconds=60
    ),
    "admm_bounds": Experiment(
        "constraints beside filtering, with recorded training seconds (figures 2 and 3)", BOUNDS, "tensor_oboe", 50
    ),
    "admm_credit": Experiment(
        "constraints beside filtering on credit.g, latency and disparity (figures 2 and 3)", CREDIT, "tensor_oboe", 60
    ),
    "admm_solvers": Experiment(
        "sub-solvers on the artificial objective (figures A1 to A4)", SOLVERS, "tensor_oboe", 200
    ),
    "admm_budgets": Experiment(
        "fixed and adaptive budgets on the artificial objective (figure A8)", BUDGETS, "tensor_oboe", 300
    ),
    "admm_sensitivity": Experiment(
        "ρ and f̂ on the artificial objective, one at a time (figure A6)", SENSITIVITY, "tensor_oboe", 200
    ),
    "admm_live": Experiment(
        "searches on raw tables with two classes (figures 1 and A7)", LIVE, "tensor_oboe", seconds=LIVE.seconds
    ),
}
