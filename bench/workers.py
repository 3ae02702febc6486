"""One measurement each, in a process of its own: `peers.py` calls them. Prints one line of JSON.

python bench/workers.py decode qkv gpt2        (an engine, a shape)
python bench/workers.py memory hf
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

SHAPES = {
    "gpt2": {"vocabulary": 50257, "layers": 12, "heads": 12, "width": 768, "context": 1024},
    "small": {"vocabulary": 65, "layers": 6, "heads": 6, "width": 384, "context": 256},
}
PROMPT, NEW = 64, 128
BATCH, LENGTH = 2, 512  # of the training steps at the shape of GPT-2


def hugging_face(shape: str) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    own = SHAPES[shape]
    names = {
        "n_layer": "layers",
        "n_head": "heads",
        "n_embd": "width",
        "n_positions": "context",
        "vocab_size": "vocabulary",
    }
    chosen = {theirs: own[ours] for theirs, ours in names.items()}
    none = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    last = own["vocabulary"] - 1
    return GPT2LMHeadModel(GPT2Config(**chosen, **none, bos_token_id=last, eos_token_id=last))


def ours(shape: str) -> Any:
    from qkv.models.gpt import GPTConfig

    return GPTConfig(**SHAPES[shape]).build()


def steps_of(who: str) -> Callable[[], float]:
    """A training step at the shape of GPT-2: forward, backward, clip, AdamW. Gives the loss."""
    if who.startswith("hf"):
        model = hugging_face("gpt2").train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        tokens = torch.randint(50257, (BATCH, LENGTH))

        def step() -> float:
            with torch.autocast("cpu", torch.bfloat16, enabled=who == "hf-bf16"):
                loss = model(tokens, labels=tokens, use_cache=False).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return float(loss)

        return step
    ran = training("gpt2", BATCH, LENGTH, "bf16" if native_bf16() else "f32")
    return lambda: next(ran)


def native_bf16() -> bool:
    from qkv.training.devices import choose_dtype

    return choose_dtype("auto", "cpu") == "bf16"


def training(
    shape: str, batch: int, length: int, dtype: str = "f32", preset: str = "", dropout: float = 0.0
) -> Iterator[float]:
    from qkv.models.gpt import PRESETS
    from qkv.objectives.language_modelling import LanguageModelling, LanguageModellingConfig
    from qkv.training.loop import initial_state, train
    from qkv.training.settings import TrainingConfig

    model = ours(shape) if not preset else type(PRESETS[preset])(
        vocabulary=65, context=length, dropout=dropout,
        **{k: getattr(PRESETS[preset], k) for k in ("layers", "heads", "width")},
    ).build()  # fmt: skip
    settings = TrainingConfig(
        steps=10**6, batch=batch, optimizer="adamw", learning_rate=1e-4, weight_decay=0.1, warmup=10, device="cpu",
        dtype=dtype, threads=torch.get_num_threads(),  # type: ignore[arg-type]
    )  # fmt: skip
    tokens = np.random.default_rng(0).integers(0, model.vocabulary, 400_000).astype(np.uint16)
    task = LanguageModelling(LanguageModellingConfig(), tokens, length, 0)
    for step in train(initial_state(model, settings), task, settings):
        yield step.loss


def pairs(rounds: int) -> dict[str, Any]:
    """Training steps of Hugging Face's GPT-2 and of ours, in turns, in one process."""
    theirs, own = steps_of("hf-bf16" if native_bf16() else "hf"), steps_of("qkv")
    for step in (theirs, own):
        step()
    found: dict[str, list[float]] = {"hf": [], "qkv": []}
    for _ in range(rounds):
        for name, step in (("hf", theirs), ("qkv", own)):
            began = time.perf_counter()
            step()
            found[name].append(time.perf_counter() - began)
    return {"dtype": "bf16" if native_bf16() else "f32", "tokens": BATCH * LENGTH, "seconds": found}


def nano(path: str, rounds: int, dropout: float = 0.1) -> dict[str, Any]:
    """minGPT's Trainer as it comes (dropout 0.1) and ours on gpt-nano, block 128, batch 64: short bursts in turns."""
    sys.path.insert(0, path)
    from mingpt.model import GPT
    from mingpt.trainer import Trainer

    tokens = torch.randint(65, (400_000,))

    class Text(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
        def __len__(self) -> int:
            return len(tokens) - 129

        def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
            return tokens[index : index + 128], tokens[index + 1 : index + 129]

    config = GPT.get_default_config()
    config.model_type, config.vocab_size, config.block_size = "gpt-nano", 65, 128
    config.embd_pdrop = config.resid_pdrop = config.attn_pdrop = dropout
    model, burst = GPT(config), 25
    settings = Trainer.get_default_config()
    settings.max_iters, settings.device = burst + 5, "cpu"
    found: dict[str, list[float]] = {"minGPT": [], "qkv": []}
    own = training("", 64, 128, preset="gpt-nano", dropout=dropout)
    next(own)
    for _ in range(rounds):
        marks: list[float] = []
        trainer = Trainer(settings, model, Text())
        trainer.set_callback("on_batch_end", lambda _, marks=marks: marks.append(time.perf_counter()))
        trainer.run()
        found["minGPT"].append((marks[-1] - marks[4]) / (len(marks) - 5))
        began = time.perf_counter()
        for _ in range(burst):
            next(own)
        found["qkv"].append((time.perf_counter() - began) / burst)
    return {"tokens": 64 * 128, "seconds": found}


def decode(engine: str, shape: str) -> dict[str, Any]:
    """Tokens a second after a prompt of 64, greedy, one row; the prompt's time counts."""
    name, _, kind = engine.partition("-")
    ids = np.random.default_rng(0).integers(0, SHAPES[shape]["vocabulary"] - 1, PROMPT).tolist()
    torch.manual_seed(0)
    write = {"hf": _hf_writer, "ct2": _ct2_writer, "qkv": _own_writer}[name](shape, ids, kind or "f32")
    write()
    spent = []
    for _ in range(5):
        began = time.perf_counter()
        write()
        spent.append(time.perf_counter() - began)
    return {"engine": engine, "shape": shape, "tokens_per_second": NEW / statistics.median(spent)}


def _hf_writer(shape: str, ids: list[int], format: str) -> Callable[[], object]:
    model = hugging_face(shape).eval().to(torch.bfloat16 if format == "bf16" else torch.float32)
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = None, 0
    tokens = torch.tensor([ids])

    def write() -> object:
        with torch.inference_mode():
            mask = torch.ones_like(tokens)
            return model.generate(tokens, attention_mask=mask, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False)

    return write


def _ct2_writer(shape: str, ids: list[int], format: str) -> Callable[[], object]:
    import ctranslate2
    from ctranslate2.converters import TransformersConverter
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    held = tempfile.TemporaryDirectory()  # until the writer below is gone
    folder = held.name
    size = SHAPES[shape]["vocabulary"]
    hugging_face(shape).save_pretrained(folder)
    words = Tokenizer(models.WordLevel({f"t{i}": i for i in range(size)}, unk_token="t0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    last = f"t{size - 1}"
    PreTrainedTokenizerFast(tokenizer_object=words, bos_token=last, eos_token=last, unk_token=last).save_pretrained(
        folder
    )
    TransformersConverter(folder).convert(f"{folder}/ct2")
    kind = {"f32": "float32", "int8": "int8"}[format]
    threads = os.cpu_count() or 1
    made = ctranslate2.Generator(
        f"{folder}/ct2", device="cpu", compute_type=kind, intra_threads=threads, inter_threads=1
    )
    prompt = [[f"t{i}" for i in ids]]

    def write(held: object = held) -> object:
        return made.generate_batch(
            prompt, max_length=NEW, min_length=NEW, sampling_topk=1, beam_size=1, include_prompt_in_result=False
        )

    return write


def _own_writer(shape: str, ids: list[int], format: str) -> Callable[[], object]:
    from qkv.generation.native import Native
    from qkv.generation.sampling import Sampling
    from qkv.generation.writing import write

    model = Native(ours(shape).eval(), format)  # type: ignore[arg-type]
    return lambda: sum(1 for _ in write(model, ids, Sampling(temperature=0.0), length=NEW))


def memory(who: str) -> dict[str, Any]:
    """Peak bytes of two training steps at the shape of GPT-2, everything included."""
    step = steps_of("hf-bf16" if who == "hf" and native_bf16() else who)
    step()
    step()
    return {"who": who, "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    work: dict[str, Callable[..., dict[str, Any]]] = {
        "pairs": lambda rounds: pairs(int(rounds)),
        "nano": lambda path, rounds, dropout="0.1": nano(path, int(rounds), float(dropout)),
        "decode": decode,
        "memory": memory,
    }
    print(json.dumps(work[what](*words)), flush=True)
