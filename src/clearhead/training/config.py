"""How a run trains: every number of the loop, and nothing about model or data."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from clearhead.config.strict import Config
from clearhead.models.initialisation import Default, Initialisation
from clearhead.training.schedules import Cosine, InverseSqrt, Linear, Schedule

__all__ = ["Adadelta", "Adam", "AdamW", "EXTENDABLE", "Optimizer", "Sgd", "TrainingConfig"]


class Adam(Config):
    """Adam (Kingma & Ba 2015) with the constants of Vaswani et al. 2017, §5.3."""

    kind: Literal["adam"] = "adam"
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.98, ge=0, lt=1)
    epsilon: float = Field(default=1e-9, gt=0)


class AdamW(Config):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019), on matrices only: not on biases and norms."""

    kind: Literal["adamw"] = "adamw"
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.98, ge=0, lt=1)
    epsilon: float = Field(default=1e-9, gt=0)
    weight_decay: float = Field(default=0.01, ge=0)


class Sgd(Config):
    """Stochastic gradient descent, with momentum (heavy ball) or Nesterov's where asked for.

    v ← momentum · v + g, then θ ← θ − lr · v, or with `nesterov` θ ← θ − lr · (g + momentum · v). Without momentum: the
    optimizer of Sutskever et al. 2014, §3.4, and Luong et al. 2015, §4.1. Gehring et al. 2017, §4.2: Nesterov's, 0.99.
    """

    kind: Literal["sgd"] = "sgd"
    momentum: float = Field(default=0.0, ge=0, lt=1)
    nesterov: bool = False

    @model_validator(mode="after")
    def _has_momentum(self) -> Sgd:
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov looks ahead along the momentum: set momentum above 0 (Gehring et al.: 0.99)")
        return self


class Adadelta(Config):
    """Adadelta (Zeiler 2012, Algorithm 1) with the constants of Bahdanau et al. 2015, B.2.

    It finds its own step; the learning rate multiplies it, and is 1 in the paper: a schedule "constant" with peak 1.
    """

    kind: Literal["adadelta"] = "adadelta"
    rho: float = Field(default=0.95, ge=0, lt=1)
    epsilon: float = Field(default=1e-6, gt=0)


Optimizer = Annotated[Adam | AdamW | Sgd | Adadelta, Field(discriminator="kind")]


class TrainingConfig(Config):
    """The loop. Whichever limit comes first ends the run: `updates`, `max_minutes`, `epochs`, `patience` (0: none).

    `updates` counts optimizer steps, each over `accumulate` batches. `score_every`, `validate_every` and `save_every`
    count updates; 0 never. `patience` counts validations (of `metric`) without a new best. When a loss or a gradient is
    not finite, `non_finite` says whether the run stops or goes on without a step; the `skip_limit`-th of those in a row
    stops it all the same.
    """

    updates: int = Field(default=100_000, ge=1)
    max_minutes: float = Field(default=0.0, ge=0)
    epochs: int = Field(default=0, ge=0)
    accumulate: int = Field(default=1, ge=1)
    clip_norm: float = Field(default=0.0, ge=0)
    non_finite: Literal["stop", "skip"] = "stop"
    skip_limit: int = Field(default=3, ge=1)
    optimizer: Optimizer = Adam()
    schedule: Schedule = InverseSqrt()
    initialisation: Initialisation = Default()
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    device: str = "auto"
    threads: int = Field(default=0, ge=0)
    ema: float = Field(default=0.0, ge=0, lt=1)
    validate_every: int = Field(default=1000, ge=0)
    score_every: int = Field(default=0, ge=0)
    save_every: int = Field(default=1000, ge=0)
    keep_last: int = Field(default=5, ge=1)
    keep_every: int = Field(default=0, ge=0)
    metric: Literal["nll", "bleu", "chrf"] = "nll"
    patience: int = Field(default=0, ge=0)
    average_last: int = Field(default=0, ge=0)
    log_every: int = Field(default=50, ge=1)
    tensorboard: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> TrainingConfig:
        if self.metric != "nll" and not self.score_every:
            raise ValueError(f"metric {self.metric!r} is only known when score_every > 0")
        if self.patience and not (self.score_every if self.metric != "nll" else self.validate_every):
            raise ValueError("patience counts validations: set validate_every > 0")
        if self.average_last == 1:
            raise ValueError("average_last 1 would be a copy: set it to 0 or to at least 2")
        if self.average_last > self.keep_last:
            raise ValueError(f"average_last {self.average_last} needs a keep_last as large, got {self.keep_last}")
        return self

    def resolved(self) -> TrainingConfig:
        """The same with the schedule's end written out, so that a run extended later keeps its descent."""
        if isinstance(self.schedule, Cosine | Linear) and not self.schedule.total:
            schedule = self.schedule.model_copy(update={"total": self.updates})
            return self.model_copy(update={"schedule": schedule})
        return self


EXTENDABLE = frozenset(
    {
        "training.updates",
        "training.max_minutes",
        "training.epochs",
        "training.patience",
        "training.keep_last",
        "training.keep_every",
        "training.save_every",
        "training.average_last",
        "training.log_every",
        "training.tensorboard",
        "training.non_finite",
        "training.skip_limit",
    }
)
"""Keys that may differ when a run is resumed: none of them changes what an update computes (when it can)."""
