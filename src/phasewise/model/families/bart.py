"""BART and Whisper: an encoder and a decoder with LayerNorm, biases and learned positions.

Keys and defaults: BartConfig and WhisperConfig of transformers 5.24. Whisper's encoder sees 30 seconds of audio,
whatever the prompt: 3,000 frames that two convolutions turn into ``max_source_positions``.
"""

import msgspec

from phasewise.model.architecture import Architecture, Attention, Mlp
from phasewise.model.families.family import Family, architecture, divided
from phasewise.model.families.t5 import ENCODER, encoder
from phasewise.model.keys import LAYERS, Keys
from phasewise.model.mixers.cross import Cross
from phasewise.model.parts import Layer


def _bart(keys: Keys) -> Architecture:
    hidden = keys.count("hidden_size")
    positions = (keys.count("max_position_embeddings") + 2) * hidden
    # A norm on the embedding at each end, and no final one.
    return _shape(keys, "bart", 0, positions, 2 * hidden, positions + 2 * hidden, "max_position_embeddings")


def _whisper(keys: Keys) -> Architecture:
    hidden, frames, bins = keys.count("hidden_size"), keys.count("max_source_positions"), keys.count("num_mel_bins")
    stem = 3 * bins * hidden + hidden + 3 * hidden * hidden + hidden
    positions = keys.count("max_target_positions") * hidden
    shape = _shape(
        keys, "whisper", -hidden, positions, 2 * hidden, stem + frames * hidden + 2 * hidden, "max_target_positions"
    )
    assert shape.encoder
    # The first convolution runs on twice the frames, the second at stride two on the frames.
    once = 2.0 * frames * (2 * 3 * bins * hidden + 3 * hidden * hidden)
    audio = msgspec.structs.replace(shape.encoder, name="audio encoder", tokens=frames, once=once)
    return msgspec.structs.replace(shape, encoder=audio)


def _shape(
    keys: Keys, family: str, bias: int, positions: int, final_norm: int, outside: int, context: str
) -> Architecture:
    """``bias`` corrects the biases of one attention: Whisper's keys have none."""
    hidden = keys.count("hidden_size")

    def own(side: str) -> Attention:
        heads = keys.count(f"{side}_attention_heads")
        return Attention(
            heads=heads,
            kv_heads=heads,
            head_dim=divided(keys, hidden, heads),
            qkv_bias=True,
            output_bias=True,
            qk_norm=bias,
        )

    def mlp(side: str) -> Mlp:
        return Mlp(intermediate=keys.count(f"{side}_ffn_dim"), gated=False, bias=True)

    attends = own("decoder")
    cross = Cross(
        own=attends,
        heads=attends.heads,
        kv_heads=attends.kv_heads,
        head_dim=attends.head_dim,
        query_bias=hidden,
        key_value_bias=2 * hidden + bias,
        output_bias=hidden,
    )
    stacked: list[Layer] = [(cross, mlp("decoder"), 6 * hidden)] * keys.count("decoder_layers", LAYERS)
    reads = encoder(
        own("encoder"), mlp("encoder"), keys.count("encoder_layers", LAYERS), hidden, 4 * hidden, outside=outside
    )
    return architecture(
        keys, family, stacked, tied=True, final_norm=final_norm, positions=positions, context=context, encoder=reads
    )


BART = Family(
    name="bart",
    model_types=("bart",),
    classes=("BartForConditionalGeneration",),
    build=_bart,
    aliases={"hidden_size": "d_model"},
    kinds=(ENCODER,),
)

WHISPER = Family(
    name="whisper",
    model_types=("whisper",),
    classes=("WhisperForConditionalGeneration",),
    build=_whisper,
    aliases={"hidden_size": "d_model"},
    kinds=(ENCODER,),
)
