"""The encoder of multilingual-e5-small as an ONNX model: twelve layers of attention over the tokens' vectors."""

from __future__ import annotations

import numpy as np

from engine.providers.embedders.e5 import onnx_file
from engine.providers.embedders.e5.onnx_file import FLOAT, INT32, MICROSOFT
from engine.providers.embedders.e5.weights import BLOCK, Array, Model

#: Multiply whole numbers: what goes in is rounded to 8 bits, a block at a time. ONNX Runtime's name for it.
BY_INT8 = 4

#: Names of what goes in (the vectors of tokens, which of them are a text's) and of what comes out.
TOKENS, MASK, OUT = "tokens", "mask", "out"
#: Of what comes out in between, the eighth layer tells most of how something is meant (as a wish, a plan, a joke), the last of what about:
#: judgements learned from it are right more often (docs/conversations.md).
MIDDLE_LAYER = 7
MIDDLE = f"l{MIDDLE_LAYER}.out"


class _Network:
    def __init__(self, model: Model) -> None:
        self._model = model
        self.nodes: list[bytes] = []
        self.tensors: list[bytes] = []

    def _tensor(self, name: str, values: Array) -> str:
        self.tensors.append(onnx_file.tensor(name, values))
        return name

    def floats(self, name: str) -> str:
        return self._tensor(name, self._model.values(name))

    def add(self, operator: str, inputs: list[str], output: str, domain: str = MICROSOFT, **attributes: float) -> str:
        self.nodes.append(onnx_file.node(operator, inputs, output, domain, **attributes))
        return output

    def normal(self, values: str, added: str, name: str, output: str) -> str:
        """``values + added``, of mean 0 and variance 1, then stretched and moved."""
        inputs = [values, added, self.floats(name + ".w"), self.floats(name + ".b")]
        return self.add("SkipLayerNormalization", inputs, output, epsilon=self._model.epsilon)

    def linear(self, values: str, name: str) -> str:
        """``values`` times the weights, and their bias."""
        weights = self._model.blocks(name + ".w")
        rows, blocks = weights.scales.shape
        scales = self._tensor(name + ".s", weights.scales.astype(np.float32))
        # Left out: what is stored for zero, since it is the usual 8, and an order of the blocks.
        inputs = [values, self._tensor(name + ".w", weights.pairs()), scales, "", "", self.floats(name + ".b")]
        sizes = {"K": blocks * BLOCK, "N": rows, "bits": 4, "block_size": BLOCK, "accuracy_level": BY_INT8}
        return self.add("MatMulNBits", inputs, name, **sizes)

    def layer(self, values: str, name: str, output: str) -> str:
        parts = [self.linear(values, name + part) for part in ("q", "k", "v")]
        seen = self.add("MultiHeadAttention", [*parts, "", MASK], name + "seen", num_heads=self._model.heads)
        middle = self.normal(values, self.linear(seen, name + "ao"), name + "aln", name + "middle")
        wide = self.add("Gelu", [self.linear(middle, name + "fi")], name + "wide")
        return self.normal(middle, self.linear(wide, name + "fo"), name + "oln", output)


def encoder(model: Model) -> bytes:
    """An ONNX model that takes ``(texts, tokens, width)`` and a mask ``(texts, tokens)``, and gives ``(texts, tokens, width)``,
    of the last layer and, where it is asked for, of :data:`MIDDLE_LAYER`.
    """
    network = _Network(model)
    scale, bias = network.floats("emb.ln.w"), network.floats("emb.ln.b")
    values = network.add("LayerNormalization", [TOKENS, scale, bias], "first", "", epsilon=model.epsilon)
    for number in range(model.layers):
        last = number == model.layers - 1
        values = network.layer(values, f"l{number}.", OUT if last else f"l{number}.out")
    shape: list[int | str] = ["texts", "tokens", model.width]
    inputs = [onnx_file.value(TOKENS, FLOAT, shape), onnx_file.value(MASK, INT32, shape[:2])]
    outputs = [onnx_file.value(name, FLOAT, shape) for name in (OUT, MIDDLE)]
    return onnx_file.model(network.nodes, network.tensors, inputs, outputs)
