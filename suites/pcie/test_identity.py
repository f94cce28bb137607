"""Is the part in a slot the model that belongs there?"""

from __future__ import annotations

import pytest

from harness.devices.pcie import Snapshot
from harness.limits import exactly, one_of
from harness.platform import Platform, Slot
from harness.plugin.measuring import Measure
from harness.procedures.chain import Chain
from harness.procedures.links import common_identity, identity


@pytest.mark.check("pcie.identity")
def test_every_part_is_the_expected_model(slot: Slot, platform: Platform, pcie: Snapshot, chain: Chain, measure: Measure) -> None:
    """A failure means another card: an RTX 6000 has the device id of an RTX 8000 and only another subsystem id."""
    function = pcie.at(slot.path)
    assert function is not None, chain.explain(slot)
    models = platform.models_for(slot)
    if models:
        measure("pcie.device", function.id, limit=one_of(*{model.device: None for model in models}), part=slot)
    alike = [model for model in models if model.device == function.id]
    if subsystems := {model.subsystem: None for model in alike if model.subsystem}:
        measure("pcie.subsystem", function.subsystem, limit=one_of(*subsystems), part=slot)
    if classes := {model.class_code: None for model in alike if model.class_code}:
        measure("pcie.class", function.kind, limit=one_of(*classes), part=slot)
    others = [platform.slot(name) for name in chain.present]
    common = common_identity(pcie, others, slot.model) if platform.gpu is not None else identity(function)
    measure("pcie.identity", identity(function), limit=exactly(common or identity(function)), part=slot)
