"""ResNet-50 v1.5: the stride of a bottleneck is in its 3x3 convolution.

    conv1 7x7/2 ─ bn1 ─ relu ─ maxpool 3x3/2 ─ layer1 (3) ─ layer2 (4) ─ layer3 (6) ─ layer4 (3) ─ mean ─ fc

25,557,032 parameters; the names of the state are those of torchvision, so its weights load.
"""

from __future__ import annotations

from typing import Any, List

from torch import Tensor, nn

PARAMETERS = 25_557_032
CLASSES = 1000
_EXPANSION = 4


class Bottleneck(nn.Module):  # type: ignore[misc]
    """1x1 down, 3x3 (with the stride), 1x1 up, and the way around."""

    def __init__(self, entering: int, width: int, stride: int) -> None:
        super().__init__()
        leaving = width * _EXPANSION
        self.conv1 = nn.Conv2d(entering, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, leaving, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(leaving)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or entering != leaving:
            self.downsample = nn.Sequential(nn.Conv2d(entering, leaving, 1, stride, bias=False), nn.BatchNorm2d(leaving))

    def forward(self, x: Tensor) -> Tensor:
        around = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(self.bn3(self.conv3(x)) + around)


class ResNet50(nn.Module):  # type: ignore[misc]
    """Images (N, 3, H, W) to logits (N, 1000)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = _layer(64, 64, 3, 1)
        self.layer2 = _layer(256, 128, 4, 2)
        self.layer3 = _layer(512, 256, 6, 2)
        self.layer4 = _layer(1024, 512, 3, 2)
        self.fc = nn.Linear(512 * _EXPANSION, CLASSES)
        self.apply(_initialize)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def _layer(entering: int, width: int, blocks: int, stride: int) -> Any:
    made: List[Bottleneck] = [Bottleneck(entering, width, stride)]
    made += [Bottleneck(width * _EXPANSION, width, 1) for _ in range(blocks - 1)]
    return nn.Sequential(*made)


def _initialize(module: Any) -> None:
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
