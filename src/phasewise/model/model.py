"""A model as it runs: its shape, the bytes its weights take, and the format of its KV cache."""

from __future__ import annotations

import msgspec

from phasewise.errors import UsageError
from phasewise.model.architecture import Architecture
from phasewise.model.feedforward.moe import Moe
from phasewise.model.formats import Format
from phasewise.model.parts import Block, Role
from phasewise.model.passes import Count
from phasewise.model.quantisation import HIGH
from phasewise.record.model import ModelFacts
from phasewise.record.quantity import Provenance, Quantity


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """What work is counted from.

    Attributes:
        name: as shown.
        source: where the facts come from.
        architecture: its shape.
        weight_bytes: resident bytes by role, scales included; a tied head is counted under ``embedding`` only.
        weights_format: name of the format, e.g. ``bf16`` or ``q4_1 + q8_0 + f32``.
        compute: dtypes that the matmuls can run in, best first.
        kv_format: name of the KV cache format.
        kv_element_bytes: bytes per element of the KV cache.
        provenance: of the facts: ``datasheet`` for a catalogue row or a config, ``measured`` for tensors in a file.
    """

    name: str
    source: str
    architecture: Architecture
    weight_bytes: dict[Role, float]
    weights_format: str
    compute: tuple[str, ...]
    kv_format: str
    kv_element_bytes: float
    provenance: Provenance = "datasheet"

    @property
    def parameters(self) -> int:
        """Every parameter of the language model, its encoder included; the vision tower is stated apart."""
        return sum(self.architecture.parameters().values())

    @property
    def active_parameters(self) -> int:
        """Those that one token uses, both embedding tables included: the P of the napkin."""
        return sum(self.architecture.active().values())

    @property
    def resident_bytes(self) -> float:
        """Bytes of all weights that serving holds: the vision tower's too, the prediction layers' not."""
        return sum(held for role, held in self.weight_bytes.items() if role != "prediction")

    @property
    def head_bytes(self) -> float:
        """Bytes of lm_head, which a tied model reads from its embedding table."""
        return self.weight_bytes["embedding"] if self.architecture.tied else self.weight_bytes["lm_head"]

    def touched_bytes(self, tokens: Count) -> Count:
        """Bytes of the language model's weights less those of the experts that none of ``tokens`` tokens chooses."""
        stored, touched = self.architecture.parameters(), self.architecture.touched(tokens)
        return sum((self.weight_bytes[role] * (touched.get(role, 0) / n) for role, n in stored.items() if n), 0.0)

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes of KV cache that one token of context adds, all layers, no window reached."""
        blocks = self.architecture.working
        return self.kv_element_bytes * sum(b.count * b.mixer.kv_per_token for b in blocks)

    def request_bytes(self, context: Count) -> Count:
        """Bytes that a request holds at ``context`` tokens: KV cache, no more than each window, and states."""
        held = sum((b.count * b.mixer.kv_held(context) for b in self.architecture.working), 0.0 * context)
        return self.kv_element_bytes * held + self.state_bytes_per_request

    @property
    def state_bytes_per_request(self) -> float:
        """Bytes that a request holds however long its context: recurrent states, K and V of an encoder's tokens."""
        return sum(block.count * self.state_bytes_of(block) for block in self.architecture.working)

    def state_bytes_of(self, block: Block) -> float:
        """The same of one layer of ``block``."""
        encoded = block.mixer.kv_per_source * self.architecture.source
        return block.mixer.state_bytes + self.kv_element_bytes * encoded

    def facts(self, compute_dtype: str = "") -> ModelFacts:
        """The section of the Run; ``compute_dtype`` says which peak its matmuls are held against."""
        shape = self.architecture
        return ModelFacts(
            name=self.name,
            source=self.source,
            parameters=self.parameters,
            active_parameters=self.active_parameters,
            active_without_embedding=self.active_parameters - shape.parameters()["embedding"],
            embedding_parameters=shape.parameters()["embedding"],
            vision_parameters=shape.vision.parameters if shape.vision else 0,
            prediction_parameters=shape.prediction,
            weight_bytes=Quantity(
                value=self.resident_bytes,
                unit="B",
                provenance=self.provenance,
                source=f"weights in {self.weights_format}",
            ),
            kv_bytes_per_token=Quantity(
                value=self.kv_bytes_per_token, unit="B", provenance="predicted", source=f"KV cache in {self.kv_format}"
            ),
            state_bytes_per_request=self.state_bytes_per_request,
            layers=shape.layers,
            max_context=shape.max_context,
            weights_format=self.weights_format,
            kv_format=self.kv_format,
            compute_dtype=compute_dtype,
            not_modelled=shape.not_modelled,
            notes=shape.notes,
        )


def with_skew(model: Model, skew: float) -> Model:
    """``model`` with that skew of its experts' routing (see ``Moe.distinct``).

    Raises:
        UsageError: a skew that is not -1 or a number from 0 to 10.
    """
    if skew != -1 and not 0 <= skew <= 10:
        raise UsageError(f"a routing skew of {skew:g} is not -1 (balanced) or a power-law exponent from 0 to 10.")
    blocks = tuple(
        msgspec.structs.replace(block, mlp=msgspec.structs.replace(block.mlp, skew=float(skew)))
        if isinstance(block.mlp, Moe)
        else block
        for block in model.architecture.blocks
    )
    return msgspec.structs.replace(model, architecture=msgspec.structs.replace(model.architecture, blocks=blocks))


def bytes_in(architecture: Architecture, weights: Format) -> dict[Role, float]:
    """Bytes by role when every weight is in ``weights``, or in 16 bit where quantisers leave it so."""
    return {
        role: count * (2.0 if weights.keeps_head and role in HIGH else weights.bytes_per_element)
        for role, count in architecture.all_parameters().items()
    }
