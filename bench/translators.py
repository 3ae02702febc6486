"""Translators: training beside JoeyNMT 2.3, decoding beside Hugging Face and CTranslate2, in turns, in one run.

    python bench/translators.py training SOURCE TARGET [--model transformer-tiny] [--tokens 4096] [--rounds 7]
    python bench/translators.py decoding MODEL SOURCES [--most 1000] [--rounds 5] [--threads 2]

SOURCE and TARGET are line-aligned files, as Multi30k's train.de and train.en; SOURCES is a file of sentences, as its
test_2016_flickr.de; MODEL is a run of `transformer` that has learned to end its sentences.

Training: target tokens a second of whole steps (batch, forward, backward, clip, Adam) on the same batches. JoeyNMT's
step is its own `TrainManager._train_step`; it also drops attention weights and hidden values, and has four more rows
in its table, its special tokens. On a CPU it always computes in f32, so qkv stands beside it in f32 and, where the
machine has it, in bf16. `pip install joeynmt==2.3` asks for old packages; these suffice: joeynmt (with --no-deps),
matplotlib, pandas, plotly, sacremoses, sentencepiece, subword-nmt, tensorboard and importlib-metadata before 8.6.

Decoding: a beam of five, 64 sentences at once, length penalty 1, all in f32 with the same weights, from ids to ids.
With one thread the seconds are those that the process computed, so that other programs matter little.
CTranslate2's own converter for Marian drops the last piece and starts from zeros; here the weights stay as they are.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

import qkv
from qkv.data.corpus import ParallelConfig
from qkv.data.encode import end_of
from qkv.data.prepare_pairs import prepare_parallel
from qkv.generation.beam import Search, translate
from qkv.models.transformer import PRESETS, TransformerConfig
from qkv.objectives.translation import Translation, TranslationBatch, TranslationConfig
from qkv.text.tokenizer import TokenizerConfig
from qkv.training.devices import choose_dtype
from qkv.training.loop import initial_state, train
from qkv.training.settings import TrainingConfig

BEAMS, TOGETHER, BURST = 5, 64, 4
SMOOTHING, RATE = 0.1, 1e-4
SPECIAL = 4  # ids of JoeyNMT that stand before ours
PAD, BOS, EOS = 1, 2, 3


def in_turns(
    calls: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each by the clock, all of them in every round, in alternating order."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds):
        for name in list(calls)[:: 1 if number % 2 == 0 else -1]:
            began = clock()
            calls[name]()
            times[name].append(clock() - began)
    return times


def ratio(theirs: list[float], ours: list[float]) -> str:
    found = sorted(other / own for other, own in zip(theirs, ours, strict=True))
    return f"{statistics.median(found):.2f} ({found[0]:.2f} to {found[-1]:.2f} in {len(found)} rounds)"


def own_steps(config: TransformerConfig, task: Translation, optimizer: Any, dtype: Any) -> Callable[[], None]:
    settings = TrainingConfig(
        steps=10**6,
        batch=1,
        optimizer=optimizer,
        learning_rate=RATE,
        matrix_learning_rate=RATE,
        warmup=10,
        device="cpu",
        dtype=dtype,
    )
    steps = train(initial_state(config.build(), settings), task, settings)

    def burst() -> None:
        for _ in range(BURST):
            next(steps)

    return burst


def joey_model(config: TransformerConfig) -> Any:
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    words = Vocabulary.__new__(Vocabulary)  # its own start looks every word up in a list: minutes
    tokens = ["<unk>", "<pad>", "<s>", "</s>"] + [f"t{number}" for number in range(config.vocabulary)]
    words.specials, words.lang_tags = tokens[:SPECIAL], []
    words._itos, words._stoi = tokens, {token: number for number, token in enumerate(tokens)}
    words.unk_index, words.pad_index, words.bos_index, words.eos_index, words.sep_index = 0, PAD, BOS, EOS, None
    side = {
        "type": "transformer", "num_layers": config.layers, "num_heads": config.heads, "hidden_size": config.width,
        "ff_size": config.hidden or 4 * config.width, "dropout": config.dropout, "layer_norm": "post",
        "embeddings": {"embedding_dim": config.width, "scale": True, "dropout": config.dropout},
    }  # fmt: skip
    tied = {"tied_embeddings": True, "tied_softmax": True, "initializer": "xavier_uniform"}
    more = {"bias_initializer": "zeros", "embed_initializer": "xavier_uniform"}
    model = build_model({"encoder": side, "decoder": dict(side), **tied, **more}, words, words)
    model.loss_function = ("crossentropy", SMOOTHING)
    return model


def joey_batch(batch: TranslationBatch) -> Any:
    """The same pairs, with JoeyNMT's ids, padding, start and end."""
    from joeynmt.batch import Batch

    def shifted(ids: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        lengths = there.sum(1)
        moved = torch.where(there, ids + SPECIAL, PAD)
        moved[torch.arange(len(ids)), lengths - 1] = EOS  # ours ends with the separator
        return moved

    source, target = shifted(batch.source, batch.present), shifted(batch.targets, batch.target_present)
    target = torch.cat([torch.full((len(target), 1), BOS), target], 1)
    lengths, rows, device = batch.present.sum(1), torch.arange(len(source)), torch.device("cpu")
    return Batch(source, lengths, None, target, None, rows, device, PAD, EOS)


def joey_steps(config: TransformerConfig, task: Translation) -> Callable[[], None]:
    from joeynmt.training import TrainManager

    model = joey_model(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98))
    manager = SimpleNamespace(
        model=model, autocast={"device_type": "cpu", "enabled": False}, n_gpu=0, scaler=None,
        args=SimpleNamespace(normalization="tokens", batch_multiplier=1),
    )  # fmt: skip
    numbers = iter(range(10**6))

    def burst() -> None:
        for _ in range(BURST):
            TrainManager._train_step(manager, joey_batch(task.batch(next(numbers), 1)))
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            model.zero_grad()

    return burst


def training(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as aside:
        paths = []
        for name in (options.source, options.target):
            paths.append(Path(aside) / Path(name).name)
            paths[-1].write_bytes(Path(name).read_bytes())  # alone: no validation files beside them
        corpus = ParallelConfig(files=tuple(map(str, paths)))
        prepared = prepare_parallel(corpus, TokenizerConfig())
        rows = prepared.rows(prepared.parallel.train, prepared.context)
    end = end_of(prepared.tokenizer)[-1]
    values = vars(PRESETS[options.model]) | {"vocabulary": prepared.tokenizer.vocabulary}
    config = TransformerConfig(**values | ({} if options.dropout is None else {"dropout": options.dropout}))
    task = Translation(TranslationConfig(smoothing=SMOOTHING, tokens=options.tokens), rows, end, 0)
    calls: dict[str, Callable[[], object]] = {"JoeyNMT": joey_steps(config, task)}
    names = {"f32, AdamW": ("adamw", "f32"), "f32, Muon": ("muon", "f32")}
    if choose_dtype("auto", "cpu") == "bf16":
        names |= {"bf16, AdamW": ("adamw", "bf16"), "bf16, Muon": ("muon", "bf16")}
    calls |= {name: own_steps(config, task, *how) for name, how in names.items()}
    for call in calls.values():  # warms all
        call()
    # every burst of a round sees the same batches
    tokens = [
        sum(task.batch(BURST * (1 + turn) + each, 1).count for each in range(BURST)) for turn in range(options.rounds)
    ]
    times = in_turns(calls, options.rounds)
    print(f"{options.model}, vocabulary {config.vocabulary}, dropout {config.dropout}, "
          f"batches of {options.tokens} tokens, joeynmt {version('joeynmt')}")  # fmt: skip
    for name, own in times.items():
        speed = statistics.median(count / seconds for count, seconds in zip(tokens, own, strict=True))
        beside = "" if name == "JoeyNMT" else f", ratio {ratio(times['JoeyNMT'], own)}"
        print(f"  {name if name == 'JoeyNMT' else 'qkv ' + name}: {speed:,.0f} target tokens/s{beside}", flush=True)


def sentences(path: str) -> list[str]:
    raw = Path(path).read_bytes()
    return (gzip.decompress(raw) if path.endswith(".gz") else raw).decode().split("\n")[:-1]


def hugging_face(folder: Path, sources: list[list[int]], limits: list[int]) -> Callable[[], list[list[int]]]:
    from transformers import MarianMTModel

    model = MarianMTModel.from_pretrained(folder).eval()
    ends, start = model.config.eos_token_id, model.config.decoder_start_token_id
    order = sorted(range(len(sources)), key=lambda number: -len(sources[number]))

    def run() -> list[list[int]]:
        found: list[list[int]] = [[] for _ in sources]
        for first in range(0, len(order), TOGETHER):
            batch = order[first : first + TOGETHER]
            longest = max(len(sources[number]) for number in batch)
            tokens = torch.full((len(batch), longest), ends)
            there = torch.zeros_like(tokens)
            for row, number in enumerate(batch):
                tokens[row, : len(sources[number])] = torch.tensor(sources[number])
                there[row, : len(sources[number])] = 1
            with torch.inference_mode():
                made = model.generate(
                    tokens, attention_mask=there, num_beams=BEAMS, max_new_tokens=max(limits[n] for n in batch),
                    max_length=None, length_penalty=1.0, early_stopping=False, do_sample=False,
                )  # fmt: skip
            for number, ids in zip(batch, made.tolist(), strict=True):
                inside = ids[1:] if ids[0] == start else ids
                found[number] = inside[: inside.index(ends)] if ends in inside else inside
        return found

    return run


def ctranslate2(
    folder: Path, sources: list[list[int]], limits: list[int], threads: int
) -> Callable[[], list[list[int]]]:
    import ctranslate2 as peer
    import transformers
    from ctranslate2.converters.transformers import BartLoader, MarianMTLoader

    class Whole(MarianMTLoader):  # type: ignore[misc]
        """All pieces, and the first vector is that of the piece we start with."""

        def get_model_spec(self, model: Any) -> Any:
            model.config.normalize_before = model.config.normalize_embedding = False
            return BartLoader.get_model_spec(self, model)

        def set_decoder(self, spec: Any, decoder: Any) -> None:
            BartLoader.set_decoder(self, spec, decoder)

        def get_vocabulary(self, model: Any, tokenizer: Any) -> Any:
            return [f"t{number}" for number in range(model.config.vocab_size)]

        def set_config(self, config: Any, model: Any, tokenizer: Any) -> None:
            config.eos_token = config.decoder_start_token = f"t{model.config.eos_token_id}"
            config.unk_token = f"t{(model.config.eos_token_id + 1) % model.config.vocab_size}"
            config.add_source_eos = False

    model = transformers.MarianMTModel.from_pretrained(folder)
    spec = Whole()(model, None)
    spec.validate()
    (folder / "ct2").mkdir()
    spec.save(str(folder / "ct2"))
    run_by = peer.Translator(str(folder / "ct2"), device="cpu", compute_type="float32", intra_threads=threads)
    words = [[f"t{number}" for number in ids] for ids in sources]

    def run() -> list[list[int]]:
        made = run_by.translate_batch(
            words, beam_size=BEAMS, max_batch_size=TOGETHER, length_penalty=1.0, max_decoding_length=max(limits)
        )
        return [[int(word[1:]) for word in each.hypotheses[0]] for each in made]

    return run


def decoding(options: argparse.Namespace) -> None:
    from qkv.interop.export import write

    bundle = qkv.load(options.model).bundle
    model: Any = bundle.model
    assert isinstance(model, torch.nn.Module)
    model.eval()
    begin, end = bundle.start_and_end
    texts = sentences(options.sources)[: options.most]
    sources = [[*ids, *end_of(bundle.tokenizer)] for ids in bundle.tokenizer.encode_batch(texts)]
    search = Search(beams=BEAMS, never=bundle.forbidden_ids)
    limits = [search.limit(len(ids), model.context) for ids in sources]

    def ours() -> list[list[int]]:
        found = translate(model, sources, search, start=begin, end=end, rows=TOGETHER)
        return [each[0].tokens for each in found]

    with tempfile.TemporaryDirectory() as aside:
        folder = Path(aside) / "marian"
        write(folder, bundle, "a translator")
        calls: dict[str, Callable[[], Any]] = {"qkv": ours}
        calls["Hugging Face"] = hugging_face(folder, sources, limits)
        calls["CTranslate2"] = ctranslate2(folder, sources, limits, options.threads)
        found = {name: call() for name, call in calls.items()}  # warms all
        times = in_turns(calls, options.rounds, time.process_time if options.threads == 1 else time.perf_counter)
    lengths = np.array([len(ids) for ids in found["qkv"]])
    print(f"{len(texts)} sentences, {lengths.mean():.1f} tokens a translation, {model.width} wide, beam {BEAMS}, "
          f"{options.threads} threads, torch {torch.__version__}, transformers {version('transformers')}, "
          f"ctranslate2 {version('ctranslate2')}")  # fmt: skip
    for name, own in times.items():
        same = sum(one == other for one, other in zip(found[name], found["qkv"], strict=True))
        beside = "" if name == "qkv" else f", ratio to qkv {ratio(own, times['qkv'])}, {same} translations the same"
        print(f"  {name}: {len(texts) / statistics.median(own):,.0f} sentences/s{beside}", flush=True)


def arguments() -> Iterator[argparse.Namespace]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    first, second = parts.add_parser("training"), parts.add_parser("decoding")
    for name in ("source", "target"):
        first.add_argument(name)
    first.add_argument("--model", default="transformer-tiny", choices=PRESETS)
    first.add_argument("--tokens", type=int, default=4096)
    first.add_argument("--dropout", type=float)
    for name in ("model", "sources"):
        second.add_argument(name)
    second.add_argument("--most", type=int, help="sentences; all when nothing is said")
    for each, rounds in ((first, 7), (second, 5)):
        each.add_argument("--rounds", type=int, default=rounds)
        each.add_argument("--threads", type=int, default=torch.get_num_threads())
    yield parser.parse_args()


def main() -> None:
    (options,) = arguments()
    torch.set_num_threads(options.threads)
    {"training": training, "decoding": decoding}[options.part](options)


if __name__ == "__main__":
    main()
