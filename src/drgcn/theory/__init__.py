"""The mathematics of Section 3 and its appendices, as functions that can be checked.

Everything works on float64 matrices on the CPU. ``docs/theory.md`` has the statements and their
proofs; ``drgcn theory`` checks every claim of the paper and says which of them hold.
"""

from drgcn.theory.activation import ELU, IDENTITY, RELU, TANH, Activation, leaky_relu, relu_power
from drgcn.theory.derivative import centred_relu_dos, derivative, dos_at_bsb1
from drgcn.theory.diagonal_off_diagonal import DOS, off_diagonal_eigenmatrix
from drgcn.theory.eigenspaces import (
    Parts,
    decompose,
    dimensions,
    g_component,
    relative_g_component,
)
from drgcn.theory.evidence import Evidence
from drgcn.theory.fixed_points import (
    FixedPoint,
    feature_fixed_point,
    iterate_bsb1,
    iterate_samples,
    layer_covariance,
    sample_fixed_point,
)
from drgcn.theory.growth import backward_gain, deviations, growth_rate, reweighted_fixed_point
from drgcn.theory.normalised_map import normalised_derivative, normalised_moment
from drgcn.theory.normalised_spectrum import NormalisedSpectrum, normalised_spectrum
from drgcn.theory.second_moment import (
    arc_cosine,
    arc_cosine_slope,
    sampled_second_moment,
    second_moment,
)
from drgcn.theory.symmetric_space import (
    bsb1,
    centring,
    operator_matrix,
    spectral_radius,
    symmetric_basis,
)
from drgcn.theory.theorem_one import (
    Reweighting,
    best_reweighting,
    descent_certificate,
    reweighted_norm,
    second_variation,
    stationarity,
)
from drgcn.theory.verification import verify
from drgcn.theory.water_filling import diagonal_reweighting

__all__ = [
    "DOS",
    "ELU",
    "IDENTITY",
    "RELU",
    "TANH",
    "Activation",
    "Evidence",
    "FixedPoint",
    "NormalisedSpectrum",
    "Parts",
    "Reweighting",
    "arc_cosine",
    "arc_cosine_slope",
    "backward_gain",
    "best_reweighting",
    "bsb1",
    "centred_relu_dos",
    "centring",
    "decompose",
    "derivative",
    "descent_certificate",
    "deviations",
    "diagonal_reweighting",
    "dimensions",
    "dos_at_bsb1",
    "feature_fixed_point",
    "g_component",
    "growth_rate",
    "iterate_bsb1",
    "iterate_samples",
    "layer_covariance",
    "leaky_relu",
    "normalised_derivative",
    "normalised_moment",
    "normalised_spectrum",
    "off_diagonal_eigenmatrix",
    "operator_matrix",
    "relative_g_component",
    "relu_power",
    "reweighted_fixed_point",
    "reweighted_norm",
    "sample_fixed_point",
    "sampled_second_moment",
    "second_moment",
    "second_variation",
    "spectral_radius",
    "stationarity",
    "symmetric_basis",
    "verify",
]
