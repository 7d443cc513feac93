"""gpytorch: Gaussian processes are fitted, exactly and by variation, as on the CPU."""

from __future__ import annotations

from typing import Any

import gpytorch
import pytest
import torch

from .harness import gradients_of, on_both, seed

KERNELS: dict[str, Any] = {
    "RBF": gpytorch.kernels.RBFKernel,
    "Matern": lambda: gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=2),
    "periodic": lambda: gpytorch.kernels.PeriodicKernel() + gpytorch.kernels.LinearKernel(),
    "rational quadratic": gpytorch.kernels.RQKernel,
    "polynomial": lambda: gpytorch.kernels.PolynomialKernel(2),
    "spectral mixture": lambda: gpytorch.kernels.SpectralMixtureKernel(num_mixtures=2, ard_num_dims=2),
    "product": lambda: gpytorch.kernels.RBFKernel(active_dims=[0]) * gpytorch.kernels.CosineKernel(active_dims=[1]),
}


class Exact(gpytorch.models.ExactGP):  # type: ignore[misc]
    def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: Any, kernel: Any) -> None:
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, x: torch.Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


class Variational(gpytorch.models.ApproximateGP):  # type: ignore[misc]
    def __init__(self, points: torch.Tensor) -> None:
        distribution = gpytorch.variational.CholeskyVariationalDistribution(len(points))
        super().__init__(gpytorch.variational.VariationalStrategy(self, points, distribution))
        self.mean = gpytorch.means.ZeroMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x: torch.Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


def data() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(24, 2, dtype=torch.float64)
    return x, torch.sin(6 * x[:, 0]) + x[:, 1] + 0.05 * torch.randn(24, dtype=torch.float64)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "RBF" else pytest.mark.matrix) for name in KERNELS]
)
def test_an_exact_process_is_fitted_as_on_the_cpu(name: str) -> None:
    def program(device: str) -> Any:
        x, y = (part.to(device) for part in data())
        likelihood = gpytorch.likelihoods.GaussianLikelihood().double().to(device)
        model = Exact(x, y, likelihood, KERNELS[name]()).double().to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
        model.train()
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = -marginal(model(x), y)
            loss.backward()
            losses.append(loss.detach())
            optimizer.step()
        gradients = gradients_of(model)
        model.eval()
        with torch.no_grad(), gpytorch.settings.fast_pred_var():
            predicted = likelihood(model(x.flip(0)[:5] + 0.01))
        seed()
        with torch.no_grad():
            sample = predicted.rsample(torch.Size([3]))
        return losses, gradients, predicted.mean, predicted.variance, sample

    on_both(program, atol=1e-6)


@pytest.mark.matrix
def test_conjugate_gradients_give_the_cpus_loss_and_gradients() -> None:
    """Iterative solvers with a preconditioner, in place of Cholesky."""

    def program(device: str) -> Any:
        x, y = (part.to(device) for part in data())
        likelihood = gpytorch.likelihoods.GaussianLikelihood().double().to(device)
        model = Exact(x, y, likelihood, gpytorch.kernels.RBFKernel()).double().to(device)
        seed()
        with (
            gpytorch.settings.max_cholesky_size(1),
            gpytorch.settings.num_trace_samples(20),
            gpytorch.settings.deterministic_probes(True),
        ):
            marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
            loss = -marginal(model(x), y)
            loss.backward()
        return loss, gradients_of(model)

    on_both(program)


@pytest.mark.matrix
def test_a_variational_process_is_fitted_as_on_the_cpu() -> None:
    def program(device: str) -> Any:
        x, y = (part.to(device) for part in data())
        model = Variational(x[:8].clone()).double().to(device)
        likelihood = gpytorch.likelihoods.BernoulliLikelihood().double().to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(x))
        model.train()
        seed()
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = -bound(model(x), (y > 0.8).double())
            loss.backward()
            losses.append(loss.detach())
            optimizer.step()
        model.eval()
        with torch.no_grad():
            return losses, dict(model.named_parameters()), likelihood(model(x)).probs

    on_both(program)
