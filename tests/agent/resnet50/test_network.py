import warnings

import pytest

pytestmark = pytest.mark.slow  # importing PyTorch takes seconds


def names_of_torchvision():
    """The state of torchvision's resnet50, from its plan: blocks a layer, and which of them have a way around."""

    def norm(name):
        return [f"{name}.{kind}" for kind in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")]

    names = ["conv1.weight", *norm("bn1"), "fc.weight", "fc.bias"]
    for layer, blocks in enumerate((3, 4, 6, 3), 1):
        for block in range(blocks):
            where = f"layer{layer}.{block}"
            for number in (1, 2, 3):
                names += [f"{where}.conv{number}.weight", *norm(f"{where}.bn{number}")]
        names += [f"layer{layer}.0.downsample.0.weight", *norm(f"layer{layer}.0.downsample.1")]
    return names


def forward(torch, state, x):
    """ResNet-50 v1.5 once more, from its definition, without a module."""
    functional = torch.nn.functional

    def norm(x, name):
        mean, variance = state[f"{name}.running_mean"], state[f"{name}.running_var"]
        return functional.batch_norm(x, mean, variance, state[f"{name}.weight"], state[f"{name}.bias"])

    def conv(x, name, stride=1, padding=0):
        return functional.conv2d(x, state[f"{name}.weight"], None, stride, padding)

    x = functional.max_pool2d(functional.relu(norm(conv(x, "conv1", 2, 3), "bn1")), 3, 2, 1)
    for layer, blocks in enumerate((3, 4, 6, 3), 1):
        for block in range(blocks):
            where, stride = f"layer{layer}.{block}", 2 if block == 0 and layer > 1 else 1
            out = functional.relu(norm(conv(x, f"{where}.conv1"), f"{where}.bn1"))
            out = functional.relu(norm(conv(out, f"{where}.conv2", stride, 1), f"{where}.bn2"))
            out = norm(conv(out, f"{where}.conv3"), f"{where}.bn3")
            around = norm(conv(x, f"{where}.downsample.0", stride), f"{where}.downsample.1") if block == 0 else x
            x = functional.relu(out + around)
    return functional.linear(functional.adaptive_avg_pool2d(x, 1).flatten(1), state["fc.weight"], state["fc.bias"])


@pytest.fixture(scope="module")
def network(torch, part):
    torch.manual_seed(7)
    made = part("network").ResNet50()
    for name, value in made.state_dict().items():  # as after training: no norm does nothing
        if name.endswith(("running_mean", "bn1.bias")):
            value.normal_(0, 0.1)
        elif name.endswith("running_var"):
            value.uniform_(0.5, 2.0)
    return made.eval()


def test_it_has_the_parameters_of_resnet50(network, part):
    assert sum(parameter.numel() for parameter in network.parameters()) == part("network").PARAMETERS == 25_557_032


def test_its_state_has_the_names_of_torchvision(network):
    assert sorted(network.state_dict()) == sorted(names_of_torchvision())


def test_it_computes_what_the_definition_of_v1_5_says(torch, network):
    images = torch.randn(2, 3, 96, 96)
    with torch.no_grad():
        assert torch.allclose(network(images), forward(torch, network.state_dict(), images), rtol=1e-4, atol=1e-4)


def test_it_computes_what_torchvision_computes(torch, network):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = pytest.importorskip("torchvision.models", reason="torchvision is not installed")
    theirs = models.resnet50(weights=None).eval()
    theirs.load_state_dict(network.state_dict())
    images = torch.randn(2, 3, 96, 96)
    with torch.no_grad():
        assert torch.equal(network(images), theirs(images))
