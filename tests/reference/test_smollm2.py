"""The real SmolLM2-135M-Instruct, 4 bits a weight, from its GGUF file; beside `transformers` with the same weights."""

from __future__ import annotations

import gzip
import json
import os
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from data_at_hand import real, smollm2
from qkv.blocks.initialization import outline
from qkv.generation.native import Native, fits
from qkv.generation.sampling import Sampling
from qkv.generation.writing import write
from qkv.interop import gguf
from qkv.interop.decoder_architectures import llama
from qkv.interop.tensors import Imported, export_weights

if not os.environ.get("CI"):
    pytest.importorskip("transformers", reason="parity with Hugging Face needs the extra: pip install 'qkv[hf]'")

from transformers import AutoConfig, LlamaForCausalLM

pytestmark = pytest.mark.slow
TOKENS = 512  # of the page


@cache
def opened() -> tuple[Imported, Any]:
    found = gguf.read(smollm2())
    with outline():
        model = found.config.build()
    model.load_state_dict(found.weights, assign=True)
    return found, model.eval()


def page() -> str:
    """The first of WikiText-2's texts that is a page and not a headline."""
    with gzip.open(real("wikitext-2/wikitext_1000.json.gz"), "rt", encoding="utf-8") as file:
        texts: list[str] = json.load(file)
    joined, text = "", iter(texts)
    while len(joined) < 6 * TOKENS:
        joined += next(text)
    return joined


def theirs() -> LlamaForCausalLM:
    found, _ = opened()
    values = llama.export_config(found.config)
    model = LlamaForCausalLM(AutoConfig.for_model(**values))
    weights = export_weights(llama.table(found.config), found.weights)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert (missing, unexpected) == (["lm_head.weight"], [])
    model.tie_weights()
    return model.eval()


@pytest.mark.parametrize("way", ["cached", "full", "native"])
def test_the_capital_of_france(way: str) -> None:
    found, model = opened()
    assert fits(model)
    writer = Native(model) if way == "native" else model
    prompt = found.tokenizer.encode("The capital of France is")
    steps = write(writer, prompt, Sampling(temperature=0.0), length=2, cached=way != "full")
    assert found.tokenizer.decode([step[0].token for step in steps if step[0]]) == " Paris."


def test_perplexity_is_that_of_transformers() -> None:
    """The issue asks for one percent; the logits themselves are equal to a few millionths."""
    found, model = opened()
    ids = torch.tensor([found.tokenizer.encode(page())[:TOKENS]])
    assert ids.size(1) == TOKENS
    with torch.inference_mode():
        ours, expected = model(ids)[0, :-1], theirs()(ids).logits[0, :-1]
    losses = [F.cross_entropy(logits, ids[0, 1:]).exp().item() for logits in (ours, expected)]
    print(
        f"perplexity {losses[0]:.4f} here, {losses[1]:.4f} there; logits differ by {(ours - expected).abs().max():.1e}"
    )
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    torch.testing.assert_close(ours, expected, atol=1e-3, rtol=1e-4)


def test_every_number_is_that_of_the_gguf_package() -> None:
    package = pytest.importorskip("gguf", reason="the gguf package is the reference here: pip install 'qkv[gguf]'")
    import gguf.quants as quants

    found, _ = opened()
    table = {theirs: (ours[0], row) for row in gguf_table(found) for i in range(30) for ours, theirs in [row.at(i)]}
    for tensor in package.GGUFReader(smollm2()).tensors:
        name, row = table[tensor.name]
        expected = torch.from_numpy(quants.dequantize(tensor.data, tensor.tensor_type).copy())
        assert torch.equal(row.transform.read(expected)[0], found.weights[name])


def gguf_table(found: Imported) -> Any:
    return gguf.table(found.config)
