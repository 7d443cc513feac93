"""Random numbers: seeds repeat them, each device has a generator, and the CPU's generator does not change."""

import copy
import io
import pickle
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from types import ModuleType

import pytest
import torch

DRAWS: dict[str, Callable[[str], torch.Tensor]] = {
    "rand": lambda d: torch.rand(64, device=d),
    "randn": lambda d: torch.randn(64, device=d),
    "randint": lambda d: torch.randint(0, 1000, (64,), device=d),
    "randperm": lambda d: torch.randperm(64, device=d),
    "rand_like": lambda d: torch.rand_like(torch.empty(64, device=d)),
    "normal": lambda d: torch.normal(torch.zeros(64, device=d), 1.0),
    "bernoulli": lambda d: torch.bernoulli(torch.full((64,), 0.5, device=d)),
    "multinomial": lambda d: torch.multinomial(torch.ones(64, device=d), 32),
    "uniform_": lambda d: torch.empty(64, device=d).uniform_(),
    "normal_": lambda d: torch.empty(64, device=d).normal_(),
    "exponential_": lambda d: torch.empty(64, device=d).exponential_(),
    "random_": lambda d: torch.empty(64, device=d).random_(),
    "dropout": lambda d: torch.nn.functional.dropout(torch.ones(64, device=d)),
    "complex": lambda d: torch.randn(64, device=d, dtype=torch.complex64),
    "rrelu": lambda d: torch.nn.functional.rrelu(-torch.ones(64, device=d), training=True),
}


@pytest.fixture(params=DRAWS)
def draw(request: pytest.FixtureRequest) -> Callable[[str], torch.Tensor]:
    return DRAWS[request.param]


def test_the_seed_of_the_device_repeats_its_numbers(
    draw: Callable[[str], torch.Tensor], device: str, device_module: ModuleType
) -> None:
    device_module.manual_seed(7)
    first, second = draw(device).cpu(), draw(device).cpu()
    device_module.manual_seed(7)
    assert torch.equal(draw(device).cpu(), first)
    assert not torch.equal(first, second)
    device_module.manual_seed(8)
    assert not torch.equal(draw(device).cpu(), first)


def test_the_global_seed_repeats_numbers_of_the_device(draw: Callable[[str], torch.Tensor], device: str) -> None:
    torch.manual_seed(7)
    first = draw(device).cpu()
    torch.manual_seed(7)
    assert torch.equal(draw(device).cpu(), first)


def test_cpu_generator_is_not_touched(draw: Callable[[str], torch.Tensor], device: str) -> None:
    before = torch.get_rng_state()
    draw(device)
    assert torch.equal(torch.get_rng_state(), before)


def test_device_generator_is_not_touched_by_the_cpu(
    draw: Callable[[str], torch.Tensor],
    device_module: ModuleType,
) -> None:
    before = device_module.get_rng_state()
    draw("cpu")
    assert torch.equal(device_module.get_rng_state(), before)


def test_distributions_have_their_moments(device: str, device_module: ModuleType) -> None:
    device_module.manual_seed(0)
    n = 100_000
    uniform, normal = torch.rand(n, device=device).cpu(), torch.randn(n, device=device).cpu()
    assert 0 <= uniform.min() < 0.001 < 0.999 < uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.01
    assert abs(normal.mean()) < 0.02
    assert abs(normal.std() - 1) < 0.02
    assert torch.equal(torch.randperm(n, device=device).cpu().sort().values, torch.arange(n))
    dropped = torch.nn.functional.dropout(torch.ones(n, device=device), 0.25).cpu()
    assert abs((dropped == 0).float().mean() - 0.25) < 0.01
    torch.testing.assert_close(dropped[dropped != 0].unique(), torch.tensor([1 / 0.75]))


def test_a_generator_repeats_with_its_state(device: str) -> None:
    generator = torch.Generator(device)
    assert generator.device == torch.device(device, 0)
    generator.manual_seed(3)
    assert generator.initial_seed() == 3
    first = torch.randn(10, device=device, generator=generator).cpu()
    copy = torch.Generator(device)
    copy.set_state(generator.get_state())
    second = torch.randn(10, device=device, generator=generator).cpu()
    assert not torch.equal(first, second)
    assert torch.equal(torch.randn(10, device=device, generator=copy).cpu(), second)
    clone = generator.clone_state()
    assert torch.equal(
        torch.randperm(9, device=device, generator=generator).cpu(),
        torch.randperm(9, device=device, generator=clone).cpu(),
    )


def test_a_generator_belongs_to_the_device_that_it_is_created_for(
    device: str, device_module: ModuleType, second_device: torch.device
) -> None:
    for index in (0, 1):
        assert torch.Generator(f"{device}:{index}").device == torch.device(device, index)
    with device_module.device(second_device):
        generator = torch.Generator(device)
    assert generator.device == second_device
    assert torch.rand(3, device=second_device, generator=generator).device == second_device


def test_generator_object_leaves_the_default_one_alone(device: str, device_module: ModuleType) -> None:
    before = device_module.get_rng_state()
    torch.empty(10, device=device).normal_(generator=torch.Generator(device))
    assert torch.equal(device_module.get_rng_state(), before)


def test_generator_of_another_kind_is_refused(device: str) -> None:
    with pytest.raises(RuntimeError, match="generator"):
        torch.randn(3, device=device, generator=torch.Generator())
    with pytest.raises(RuntimeError, match=device):
        torch.randn(3, generator=torch.Generator(device))


def test_a_saved_state_repeats_the_numbers(device: str, device_module: ModuleType) -> None:
    state = device_module.get_rng_state()
    assert (state.dtype, state.device.type) == (torch.uint8, "cpu")
    first = torch.randn(10, device=device).cpu()
    device_module.set_rng_state(state)
    assert torch.equal(torch.randn(10, device=device).cpu(), first)
    with pytest.raises((RuntimeError, TypeError)):
        device_module.set_rng_state(torch.zeros(3, dtype=torch.uint8))


def test_devices_draw_independently(device: str, device_module: ModuleType, second_device: torch.device) -> None:
    device_module.manual_seed_all(5)
    assert device_module.initial_seed() == 5
    first = torch.randn(10, device=device).cpu()
    state = device_module.get_rng_state(second_device)
    assert torch.equal(torch.randn(10, device=second_device).cpu(), first)
    torch.randn(10, device=device)
    device_module.set_rng_state(state, second_device)
    assert torch.equal(torch.randn(10, device=second_device).cpu(), first)
    with device_module.device(1):
        device_module.manual_seed(6)
        assert device_module.initial_seed() == 6
    assert device_module.initial_seed() == 5


def test_the_states_of_all_devices_can_be_saved(device: str, device_module: ModuleType) -> None:
    states = device_module.get_rng_state_all()
    assert len(states) == device_module.device_count()
    first = torch.randn(4, device=device).cpu()
    device_module.set_rng_state_all(states)
    assert torch.equal(torch.randn(4, device=device).cpu(), first)
    with pytest.raises(ValueError, match="shorter|longer"):
        device_module.set_rng_state_all(states + states)


def test_seed_draws_a_new_seed_each_time(device: str, device_module: ModuleType) -> None:
    cpu = torch.get_rng_state()
    seeds = set()
    for _ in range(3):
        device_module.seed()
        seeds.add(device_module.initial_seed())
        device_module.seed_all()
        seeds.add(device_module.initial_seed())
    assert len(seeds) == 6
    assert len({generator.initial_seed() for generator in device_module.default_generators}) == 1
    assert torch.equal(torch.get_rng_state(), cpu)


def test_default_generators_govern_their_devices(device: str, device_module: ModuleType) -> None:
    generators = device_module.default_generators
    assert [g.device for g in generators] == [torch.device(device, i) for i in range(device_module.device_count())]
    generators[0].manual_seed(11)
    assert device_module.initial_seed() == 11
    first = torch.randn(5, device=device).cpu()
    device_module.manual_seed(11)
    assert torch.equal(torch.randn(5, device=device, generator=generators[0]).cpu(), first)


@pytest.mark.parametrize("options", [{}, {"devices": [0]}], ids=["all", "one"])
@pytest.mark.filterwarnings("ignore:.*available devices")
def test_fork_rng_restores_device_and_cpu(options: dict[str, list[int]], device: str) -> None:
    torch.manual_seed(1)
    expected = torch.randn(5, device=device).cpu(), torch.randn(5)
    torch.manual_seed(1)
    with torch.random.fork_rng(device_type=device, **options):
        torch.manual_seed(99)
        torch.randn(50, device=device)
    assert torch.equal(torch.randn(5, device=device).cpu(), expected[0])
    assert torch.equal(torch.randn(5), expected[1])


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_repeats_the_dropout(reentrant: bool, device: str) -> None:
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(1000, device=device, requires_grad=True)
    out = checkpoint(lambda t: torch.nn.functional.dropout(t, 0.5), x, use_reentrant=reentrant)
    out.sum().backward()
    assert torch.equal(x.grad.cpu(), out.detach().cpu())


def test_random_sampler_takes_a_generator_of_the_device(device: str) -> None:
    def order() -> list[int]:
        generator = torch.Generator(device).manual_seed(2)
        with torch.device(device):
            return list(torch.utils.data.RandomSampler(range(20), generator=generator))

    assert sorted(order()) == list(range(20))
    assert order() == order()


def test_initialisation_of_modules_follows_the_seed(device: str) -> None:
    def weight() -> torch.Tensor:
        torch.manual_seed(3)
        return torch.nn.Linear(4, 4, device=device).weight.detach().cpu()

    assert torch.equal(weight(), weight())


def test_the_offset_of_a_generator_is_refused(device: str) -> None:
    with pytest.raises((NotImplementedError, RuntimeError), match="offset"):
        torch.Generator(device).get_offset()


@pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        lambda g: pickle.loads(pickle.dumps(g)),
        lambda g: pickle.loads(pickle.dumps(g, 2)),
        lambda g: pickle.loads(bytes(ForkingPickler.dumps(g))),
        lambda g: saved_and_loaded(g),
    ],
    ids=["copy", "deepcopy", "pickle", "pickle 2", "between processes", "save"],
)
def test_a_copied_generator_draws_the_same_numbers(
    copied: Callable[[torch.Generator], torch.Generator], second_device: torch.device
) -> None:
    generator = torch.Generator(second_device).manual_seed(11)
    torch.randn(3, device=second_device, generator=generator)  # and one more number that the generator keeps
    other = copied(generator)
    assert other is not generator
    assert (other.device, other.initial_seed()) == (second_device, 11)
    assert torch.equal(other.get_state(), generator.get_state())
    draws = [torch.randn(33, device=second_device, generator=g).cpu() for g in (generator, other, generator, other)]
    assert torch.equal(draws[0], draws[1])
    assert torch.equal(draws[2], draws[3])
    on_cpu = copied(torch.Generator().manual_seed(11))
    assert (on_cpu.device.type, on_cpu.initial_seed()) == ("cpu", 11)


def saved_and_loaded(value: torch.Generator) -> torch.Generator:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    loaded: torch.Generator = torch.load(file, weights_only=False)
    return loaded
