"""Hostile models, each made from a tiny good one by a small function: what must be refused, and what must do no harm.

Beside the folders lies what they reach for: OUTSIDE, a folder with a good shard, settings and a vocabulary. Nobody may
open it. Whatever asks for a program would make the file RAN.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from interop import tiny_folder, tiny_gguf

OUTSIDE, RAN = "outside", "ran"
SHARD = "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"
Make = Callable[[Path], Path | None]  # fills the new folder it is given; gives what to open, if not that folder


@dataclass(frozen=True)
class Case:
    name: str
    make: Make
    says: str  # what the refusal must name: file and field, as a regular expression; nothing where it loads
    codes: tuple[int, ...] = field(default=(5,))


CASES: list[Case] = []


def hostile(name: str, says: str, *codes: int) -> Callable[[Make], Make]:
    """Put a function on the list. `codes` other than 5 are for what is no model at all."""

    def listed(make: Make) -> Make:
        CASES.append(Case(name, make, says, codes or (5,)))
        return make

    return listed


def harmless(name: str) -> Callable[[Make], Make]:
    """What looks bad and is a whole model all the same: it loads, and what is bad about it stays untouched."""
    return hostile(name, "", 0)


def build(root: Path) -> list[tuple[Case, Path]]:
    """All cases in folders below `root`, and what to open of each."""
    outside = tiny_folder.write(root / OUTSIDE)
    for name in ("model-00002-of-00002.safetensors", "tok512.bin"):
        (outside / name).write_bytes((outside / "model.safetensors").read_bytes())
    (outside / INDEX).write_text('{"weight_map": {"a": "model.safetensors"}}')
    made = []
    for number, case in enumerate(CASES):
        place = root / f"{number:03d}"
        place.mkdir()
        made.append((case, case.make(place / "model") or place / "model"))
    return made


def evil(root: Path) -> bytes:
    """A pickle that makes the file RAN where it is opened."""
    ran = str(root / RAN)
    return b"cos\nsystem\n(S'touch " + ran.encode() + b"'\ntR."


def root_of(folder: Path) -> Path:
    return folder.parent.parent


# ---- config.json ----------------------------------------------------------------------------------------------------


def config(name: str, says: str, **changes: Any) -> None:
    """config.json with other values; None takes one away."""

    def make(folder: Path) -> None:
        tiny_folder.write(folder)
        (folder / "generation_config.json").unlink()  # it would have the first word about some of them
        values = {key: value for key, value in (tiny_folder.CONFIG | changes).items() if value is not None}
        (folder / "config.json").write_text(json.dumps(values))

    hostile(f"config: {name}", rf"config\.json.*{says}")(make)


def config_text(name: str, says: str, content: str | bytes, *codes: int) -> None:
    """config.json of these bytes."""

    def make(folder: Path) -> None:
        tiny_folder.write(folder)
        (folder / "config.json").write_bytes(content.encode() if isinstance(content, str) else content)

    hostile(f"config: {name}", says, *codes)(make)


def with_text(**changes: str) -> str:
    """The good config.json with values that json.dumps would not write."""
    rest = {key: value for key, value in tiny_folder.CONFIG.items() if key not in changes}
    return json.dumps(rest)[:-1] + "".join(f', "{key}": {value}' for key, value in changes.items()) + "}"


config("auto_map", "auto_map names a program", auto_map={"AutoModelForCausalLM": "modeling_evil.EvilModel"})
config("custom pipelines", "custom_pipelines names", custom_pipelines={"x": {"impl": "evil.Pipeline"}})
config("a kernel of another", "_attn_implementation_internal names", _attn_implementation_internal="evil/kernel")
config("quantised", "quantization_config", quantization_config={"quant_method": "bitsandbytes"})
config("an unknown kind", "model_type = 'evil'", model_type="evil")
config("a kind that is a list", r"model_type = \['llama'\]", model_type=["llama"])
config("no kind", "neither format nor model_type", model_type=None)
config("a format of ours to come", "its format is 'qkv/9'", format="qkv/9")
config("a format that is null", "format", format=[])
config("a negative size", "width = -16", hidden_size=-16)
config("no layers", "layers = 0", num_hidden_layers=0)
config("a size that is a truth", "layers = True", num_hidden_layers=True)
config("a size that is a word", "heads = '2'", num_attention_heads="2")
config("a size that is a list", r"width = \[16\]", hidden_size=[16])
config("half a layer", "layers = 1.5", num_hidden_layers=1.5)
config("no size", "hidden_size is missing", hidden_size=None)
config("a billion layers", "layers = 1000000000", num_hidden_layers=10**9)
config("a thousand layers", "1,000 layers", num_hidden_layers=1000)
config("a context of a billion", "context = 1000000000", max_position_embeddings=10**9)
config("a context without end", "context = 1", max_position_embeddings=10**300)
config("a wide model", "width = 4", hidden_size=2**62)
config("many rows", "embedding", vocab_size=2**31)
config("rows without end", "vocabulary", vocab_size=2**63)
config("a wide head", r"query.weight is \(16, 16\)", head_dim=2**18)
config("wide layers", "feedforward", intermediate_size=2**18)
config("heads that do not divide", "heads", num_attention_heads=3)
config("key heads that do not divide", "key_heads = 7", num_key_value_heads=7)
config("fewer rows than tokens", "the tokenizer has 261 tokens, the model 100", vocab_size=100)
config("an end beyond the rows", "eos_token_id = 99999", eos_token_id=99999)
config("an end before the rows", "eos_token_id = -1", eos_token_id=-1)
config("an end that is a truth", "eos_token_id = True", eos_token_id=True)
config("ends of lists", "eos_token_id", eos_token_id=[[0]])
config("a thousand ends", "eos_token_id", eos_token_id=[0] * 1000)
config("turns that are a number", "rope", rope_parameters=7)
config("turns of another kind", "rope_type = 'evil'", rope_parameters={"rope_type": "evil", "rope_theta": 1.0})
config("turns in words", "rotary_base = 'x'", rope_theta="x")
config(
    "qwen3 with turns that are a list",
    r"rope_parameters = \['rope_theta'\] does not fit",
    model_type="qwen3",
    head_dim=8,
    rope_parameters=["rope_theta"],
)
config("qwen3 with turns of nothing", "rope_theta", model_type="qwen3", head_dim=8, rope_parameters={"x": 1})
config(
    "qwen2 with layers of lists",
    "value of the wrong kind",
    model_type="qwen2",
    use_sliding_window=True,
    layer_types=[["sliding"]],
)
config("bert with strange names", "bert|config", model_type="bert", id2label=[1, 2, 3], architectures=[["x"]])
config_text("a size that is not a number", r"config\.json.*width = nan", with_text(hidden_size="NaN"))
config_text("a size without end", r"config\.json.*width = -inf", with_text(hidden_size="-Infinity"))
config_text("a size beyond numbers", r"config\.json.*context", with_text(max_position_embeddings="1e400"))
config_text("an epsilon that is not a number", r"config\.json.*norm_epsilon", with_text(rms_norm_eps="NaN"))
config_text("a base without end", r"config\.json.*rotary_base", with_text(rope_theta="1e999"))
config_text("a huge integer", r"config\.json: not readable as JSON", with_text(hidden_size="9" * 10_000))
config_text("a key twice", r"config\.json.*duplicate key", with_text()[:-1] + ', "hidden_size": 16}')
config_text("deep", r"config\.json: not readable as JSON", '{"a":' * 100_000)
config_text("a list", r"config\.json: expected a JSON object", "[]")
config_text("empty", r"config\.json: not readable as JSON", "")
config_text("not UTF-8", r"config\.json: not readable as JSON", b'{"model_type": "\xff\xfe"}')
config_text("a mark of byte order", r"config\.json: not readable as JSON", b"\xef\xbb\xbf" + with_text().encode())
config_text("UTF-16", r"config\.json: not readable as JSON", with_text().encode("utf-16"))
config_text("a megabyte of blanks", r"config\.json: [\d,]+ bytes", with_text() + " " * 2**21)


# ---- odd files ------------------------------------------------------------------------------------------------------


def instead(name: str, how: str, says: str, *codes: int, shards: bool = False) -> None:
    """A file of the folder replaced by something that is no file of it."""

    def make(folder: Path) -> None:
        (tiny_folder.write_in_shards if shards else tiny_folder.write)(folder)
        path = folder / name
        path.unlink(missing_ok=True)
        match how:
            case "pipe":
                os.mkfifo(path)
            case "folder":
                path.mkdir()
            case "loop":
                path.symlink_to(path.name)
            case "link out":
                path.symlink_to(root_of(folder) / OUTSIDE / name)
            case "relative link out":
                path.symlink_to(f"../../{OUTSIDE}/{name}")
            case "device":
                path.symlink_to("/dev/zero")
            case "huge":  # with a hole: nothing is written
                with path.open("wb") as file:
                    file.truncate(100 * 2**20)

    hostile(f"{name}: {how}", says, *codes)(make)


ODD = {"pipe": "not a regular file", "folder": "not a regular file", "loop": "", "link out": "out of the folder"}
ODD |= {"relative link out": "out of the folder", "device": "out of the folder|not a regular file"}
for kind, words in ODD.items():
    # what cannot be looked at as settings is no model at all
    instead("config.json", kind, rf"config\.json.*{words}" if "out" in kind else "config.json", 5, 2)
    instead("model.safetensors", kind, rf"model\.safetensors: .*({words})")
    instead("tokenizer.json", kind, rf"tokenizer\.json: .*({words})")
    instead(SHARD, kind, rf"model-00002.*: .*({words})", shards=True)
    instead(INDEX, kind, rf"{INDEX}: .*({words})|missing", shards=True)
for kind in ("pipe", "link out", "folder"):
    instead("generation_config.json", kind, rf"generation_config\.json: .*{ODD[kind]}")
    instead("tokenizer_config.json", kind, rf"tokenizer_config\.json: .*{ODD[kind]}")
for kind in ("config.json", "tokenizer.json", "generation_config.json", "tokenizer_config.json"):
    instead(kind, "huge", rf"{kind}: .*bytes")
instead(INDEX, "huge", rf"{INDEX}: .*bytes", shards=True)
instead("model.safetensors", "huge", r"model\.safetensors: not a whole safetensors file")
instead(SHARD, "missing", r"model-00002.*missing", shards=True)
instead("tokenizer.json", "missing", r"tokenizer\.json: missing")
instead("config.json", "missing", "not a model", 2)


# ---- the index ------------------------------------------------------------------------------------------------------


def index(name: str, says: str, weight_map: Any) -> None:
    """An index whose weight_map is what the function gives for the folder."""

    def make(folder: Path) -> None:
        tiny_folder.write_in_shards(folder)
        given = weight_map(folder) if callable(weight_map) else weight_map
        whole = json.loads((folder / INDEX).read_text())["weight_map"]
        values = whole | given if isinstance(given, dict) and given else given
        (folder / INDEX).write_text(json.dumps({"weight_map": values}))

    hostile(f"index: {name}", says)(make)


index("one folder up", "not a plain file name", {"x": f"../../{OUTSIDE}/model.safetensors"})
index("an absolute path", "not a plain file name", lambda folder: {"x": str(root_of(folder) / OUTSIDE / SHARD)})
index("a folder below", "not a plain file name", {"x": "below/model.safetensors"})
index("backwards strokes", "not a plain file name", {"x": "..\\..\\model.safetensors"})
index("a zero in the name", "not a plain file name", {"x": "a\0.safetensors"})
index("a name without end", "cannot be read: File name too long", {"x": "x" * 5000 + ".safetensors"})
index("half a character", "cannot be read|missing", {"x": "\ud800.safetensors"})
index("a list for a name", "weight_map must name", {"x": ["model.safetensors"]})
index("a number for a name", "weight_map must name", {"x": 7})
index("a pickle", "weight_map must name", {"x": "pytorch_model.bin"})
index("nothing", "weight_map must name", {})
index("a list", "weight_map must name", [1, 2])


@hostile("index: a key twice", f"{INDEX}.*duplicate key")
def index_twice(folder: Path) -> None:
    tiny_folder.write_in_shards(folder)
    text = (folder / INDEX).read_text()
    (folder / INDEX).write_text(text[:-1] + ', "weight_map": {"a": "../x.safetensors"}}')


@hostile("index: a tensor in two files", r"is in model-00001.* as well")
def tensor_twice(folder: Path) -> None:
    tiny_folder.write_in_shards(folder)
    first = folder / SHARD.replace("00002-of", "00001-of")
    (folder / SHARD).write_bytes(first.read_bytes())


# ---- pickles --------------------------------------------------------------------------------------------------------


def pickled(*names: str, says: str) -> None:
    def make(folder: Path) -> None:
        tiny_folder.write(folder)
        (folder / "model.safetensors").unlink()
        for name in names:
            (folder / name).write_bytes(evil(root_of(folder)))

    hostile(f"pickles only: {names[0]}", says)(make)


pickled("pytorch_model.bin", says=r"pytorch_model\.bin.*may hold programs")
pickled("model.pt", says=r"model\.pt.*may hold programs")
pickled("model.pkl", says=r"model\.pkl.*may hold programs")
pickled("consolidated.00.pth", says=r"consolidated\.00\.pth.*may hold programs")
pickled("model.npy", says=r"(model\.npy|model\.safetensors): ")
pickled("model.safetensors", says=r"model\.safetensors: not a whole safetensors file")


@hostile("a zip of torch named model.safetensors", r"model\.safetensors: not a whole safetensors file")
def torch_zip(folder: Path) -> None:
    tiny_folder.write(folder)
    with zipfile.ZipFile(folder / "model.safetensors", "w") as archive:
        archive.writestr("archive/data.pkl", evil(root_of(folder)))


@hostile("an index in pickle's name", "may hold programs")
def pickle_index(folder: Path) -> None:
    tiny_folder.write(folder)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(evil(root_of(folder)))
    (folder / "pytorch_model.bin.index.json").write_text('{"weight_map": {"a": "pytorch_model.bin"}}')


# ---- safetensors ----------------------------------------------------------------------------------------------------


def header(name: str, says: str, change: Callable[[dict[str, Any]], Any]) -> None:
    """model.safetensors with another header before the same bytes; what `change` gives, if anything, is its text."""

    def make(folder: Path) -> None:
        tiny_folder.write(folder)
        path = folder / "model.safetensors"
        data = path.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        values = json.loads(data[8 : 8 + length])
        changed = change(values)
        text = changed if isinstance(changed, bytes) else json.dumps(values).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])

    hostile(f"safetensors: {name}", rf"model\.safetensors|config\.json.*{says}")(make)


def put(tensor: str, **changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda values: values[tensor].update(changes)


EMBEDDING, NORM = "model.embed_tokens.weight", "model.norm.weight"
header("a terabyte", "", put(EMBEDDING, shape=[2**20, 2**20], data_offsets=[0, 2**40]))
header("a shape without end", "", put(EMBEDDING, shape=[2**62, 2**62]))
header("a negative offset", "", put(NORM, data_offsets=[-64, 0]))
header("offsets backwards", "", put(NORM, data_offsets=[64, 0]))
header("offsets beyond the end", "", put(NORM, data_offsets=[2**40, 2**40 + 64]))
header("offsets beyond numbers", "", put(NORM, data_offsets=[0, 2**70]))
header("tensors on top of each other", "", put(NORM, data_offsets=[0, 64]))
header("a shape that is not its bytes", "", put(NORM, shape=[17]))
header("a kind that nobody knows", "", put(NORM, dtype="F7"))
header("a rank of a thousand", "", put(NORM, shape=[1] * 999 + [16]))
header("not JSON", "", lambda values: b"{" * 100)
header("deep", "", lambda values: b'{"a":' * 50_000)
header("a word for a tensor", "", lambda values: values.update(x="y"))
header("no tensors", "", lambda values: values.clear())


@hostile("safetensors: a million tensors", r"model\.safetensors")
def million_tensors(folder: Path) -> None:
    tiny_folder.write(folder)
    entry = '"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    text = ("{" + ",".join(entry % number for number in range(10**6)) + "}").encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)


@hostile("safetensors: a terabyte of holes", r"config\.json: tensor embedding.weight is \(1048576, 524288\)")
def terabyte_of_holes(folder: Path) -> None:
    """A file that is as large as it says, and takes no place: to widen its numbers would take two terabytes."""
    tiny_folder.write(folder)
    data = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    values = json.loads(data[8 : 8 + length])
    values[EMBEDDING] |= {"dtype": "F16", "shape": [2**20, 2**19], "data_offsets": [0, 2**40]}
    place = 0
    for name in sorted(values.keys() - {"__metadata__"}):  # one after the other, without a gap
        start, end = values[name]["data_offsets"]
        values[name]["data_offsets"] = [place, place + end - start]
        place += end - start
    text = json.dumps(values).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + place)


def raw_weights(name: str, content: bytes) -> None:
    def make(folder: Path) -> None:
        tiny_folder.write(folder)
        (folder / "model.safetensors").write_bytes(content)

    hostile(f"safetensors: {name}", r"model\.safetensors: ")(make)


raw_weights("a header of 2^63", struct.pack("<Q", 2**63) + b"{}")
raw_weights("a header longer than the file", struct.pack("<Q", 10_000) + b"{}")
raw_weights("nothing", b"")
raw_weights("five bytes", b"\0\0\0\0\0")


def weights(name: str, says: str, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    """Whole files with other tensors in them."""

    def make(folder: Path) -> None:
        tiny_folder.write(folder)
        found = tiny_folder.tensors()
        change(found)
        save_file(found, folder / "model.safetensors")

    hostile(f"tensors: {name}", says)(make)


def kind_of(dtype: torch.dtype) -> Callable[[dict[str, torch.Tensor]], None]:
    return lambda found: found.update({NORM: found[NORM].to(dtype)})


QUERY = "model.layers.1.self_attn.q_proj.weight"
weights("whole numbers", r"model\.safetensors: tensor model\.norm\.weight is of I64", kind_of(torch.int64))
weights("truths", r"model\.safetensors: tensor model\.norm\.weight is of BOOL", kind_of(torch.bool))
weights("eight bits", r"model\.safetensors: tensor model\.norm\.weight is of F8_E4M3", kind_of(torch.float8_e4m3fn))
weights("one missing", f"1 missing .{QUERY}", lambda found: found.pop(QUERY))
weights(
    "one too many", "1 unknown .model.more.weight", lambda found: found.update({"model.more.weight": torch.ones(3)})
)
weights("a program's name", "1 unknown", lambda found: found.update({"__import__('os').system('id')": torch.ones(2)}))
weights(
    "turned round",
    r"blocks.1.feedforward.sublayer.down.weight is \(24, 16\), the model needs \(16, 24\)",
    lambda found: found.update({"model.layers.1.mlp.down_proj.weight": torch.ones(24, 16)}),
)
weights("three sizes", r"has the shape \[4, 4, 16\]", lambda found: found.update({QUERY: torch.ones(4, 4, 16)}))
weights("one number", r"has the shape \[\]", lambda found: found.update({NORM: torch.tensor(1.0)}))
weights("no rows", "embedding", lambda found: found.update({EMBEDDING: torch.ones(0, 16)}))
weights(
    "a layer too many", "missing|unknown", lambda found: found.update({QUERY.replace(".1.", ".2."): torch.ones(16, 16)})
)
weights(
    "layers by other numbers",
    "missing|unknown",
    lambda found: found.update({QUERY.replace(".1.", ".999999999999."): found.pop(QUERY)}),
)


# ---- tokenizers -----------------------------------------------------------------------------------------------------


def words(name: str, says: str, change: Callable[[dict[str, Any]], Any]) -> None:
    """tokenizer.json with other values, or what `change` gives as its text."""

    def make(folder: Path) -> None:
        tiny_folder.write(folder)
        values = tiny_folder.tokenizer()
        changed = change(values)
        content = changed if isinstance(changed, bytes) else json.dumps(values).encode()
        (folder / "tokenizer.json").write_bytes(content)

    hostile(f"tokenizer: {name}", rf"tokenizer\.json: .*({says})")(make)


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def vocabulary(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda values: values["model"]["vocab"].update(changes)


def twice(values: dict[str, Any]) -> bytes:
    text = json.dumps(values)
    return text.replace('"version"', '"version": "9", "version"', 1).encode()


words("a regular expression without end", "pre_tokenizer", lambda v: v.update(pre_tokenizer=split(r"(a+)+$")))
words("another, in its decoder", "decoder", lambda v: v.update(decoder=split(r"(x*)*")))
words("another, in its normalizer", "normalizer", lambda v: v.update(normalizer=split(r"(?:a|a)*b")))
words(
    "a long list of characters to map",
    "normalizer",
    lambda v: v.update(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
)
words("a merge longer than any token", r"model\.merges\[2\]", lambda v: v["model"]["merges"].append(["he" * 40, "h"]))
words("merges of three", r"model\.merges\[2\]", lambda v: v["model"]["merges"].append(["h", "e", "h"]))
words("merges of numbers", r"model\.merges\[2\]", lambda v: v["model"]["merges"].append([1, 2]))
words("ids beyond the rows", r"model\.vocab", vocabulary(qqq=10**6))
words("an id that is negative", r"model\.vocab", vocabulary(h=-1))
words("an id beyond numbers", r"model\.vocab", vocabulary(h=2**70))
words("an id twice", r"model\.vocab", vocabulary(h=7))
words("a token too long", r"model\.vocab", vocabulary(**{"x" * 5000: 261}))
config("more tokens than rows", "the tokenizer has 261 tokens, the model 260", vocab_size=260)
words("half a character", r"model\.vocab", vocabulary(**{"\ud800": 261}))
words("a model that is a unigram", "pre_tokenizer.*unigram", lambda v: v["model"].update(type="Unigram"))
words("dropout", r"model\.dropout", lambda v: v["model"].update(dropout=0.5))
words("an unknown key", r"model\.surprise", lambda v: v["model"].update(surprise=1))
words("a template of strange ids", "post_processor", lambda v: v.update(post_processor={"type": "RobertaProcessing"}))
words("no end of a text", "added_tokens", lambda v: v.update(added_tokens=[]))
words("a key twice", "duplicate key", twice)
words("deep", "nested", lambda v: b"[" * 200_000)
words("not UTF-8", "not UTF-8 at byte 0", lambda v: b"\xff\xfe" + json.dumps(v).encode())
words("cut off", "not JSON", lambda v: json.dumps(v).encode()[:-100])
words("a list", "not a tokenizer", lambda v: b"[1, 2, 3]")
words("ten million empty lists", "values", lambda v: b'{"a": [' + b"[]," * 10**7 + b"[]]}")
words("a million added tokens", "values", lambda v: v["added_tokens"].extend([tiny_folder.added(9, "x")] * 400_000))


def older(name: str, says: str, **files: str | bytes) -> None:
    """The older files in the place of tokenizer.json: vocab_json, merges_txt, vocab_txt."""

    def make(folder: Path) -> None:
        tiny_folder.write(folder)
        (folder / "tokenizer.json").unlink()
        for key, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            (folder / key.replace("_", ".")).write_bytes(data)

    hostile(f"older vocabulary: {name}", says)(make)


GOOD_VOCABULARY = json.dumps({token: number for number, token in enumerate(tiny_folder.TOKENS)})
older(
    "a key twice", r"vocab\.json: .*duplicate key", vocab_json=GOOD_VOCABULARY[:-1] + ', "he": 259}', merges_txt="h e\n"
)
older("deep", r"vocab\.json: not JSON", vocab_json="[" * 200_000, merges_txt="h e\n")
older("a huge id", r"vocab\.json: ", vocab_json=json.dumps({"a": 10**18}), merges_txt="h e\n")
older("merges of nothing", r"merges\.txt: model\.merges\[0\]", vocab_json=GOOD_VOCABULARY, merges_txt="h e e\n")
older(
    "merges of strangers",
    r"vocab\.json and merges\.txt: model\.merges\[0\]",
    vocab_json=GOOD_VOCABULARY,
    merges_txt="xx yy\n",
)
older("a word twice", r"vocab\.txt: the token 'a' is listed twice", vocab_txt="[PAD]\na\na\n")
older("no special words", r"vocab\.txt: ", vocab_txt="a\nb\nc\n")
older("not UTF-8", r"vocab\.txt: not UTF-8", vocab_txt=b"\xff\xfe\n")


@hostile("tokenizer_config: five million empty lists", r"tokenizer_config\.json")
def lists_in_settings(folder: Path) -> None:
    tiny_folder.write(folder)
    (folder / "tokenizer_config.json").write_bytes(b'{"a": [' + b"[]," * (5 * 10**6) + b"[]]}")


@hostile("tokenizer_config: deep", r"tokenizer_config\.json: not readable")
def deep_settings(folder: Path) -> None:
    tiny_folder.write(folder)
    (folder / "tokenizer_config.json").write_text('{"a":' * 100_000)


@hostile("generation_config: an end beyond the rows", r"generation_config\.json: eos_token_id = 99999")
def far_end(folder: Path) -> None:
    tiny_folder.write(folder)
    (folder / "generation_config.json").write_text('{"eos_token_id": 99999}')


# ---- files that are models ------------------------------------------------------------------------------------------


def gguf(name: str, says: str, content: Callable[[], bytes], *codes: int) -> None:
    def make(folder: Path) -> Path:
        folder.mkdir()
        (folder / "model.gguf").write_bytes(content())
        return folder / "model.gguf"

    hostile(f"GGUF: {name}", rf"model\.gguf: .*({says})", *codes)(make)


def deflated() -> bytes:
    """Ten megabytes of zeros in a few kilobytes."""
    import io

    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.gguf", bytes(10**7))
    return held.getvalue()


def with_values(**changes: Any) -> bytes:
    named = {key.replace("__", "."): item for key, item in changes.items()}
    return tiny_gguf.assembled(tiny_gguf.values_of("llama") | named, tiny_gguf.tensors_of("llama"))


gguf("a zip bomb", "magic", deflated)
gguf("a pickle", "magic", lambda: evil(Path()))
gguf("nothing", "magic", lambda: b"")
gguf("cut in its header", "file|bytes|ends", lambda: tiny_gguf.whole("llama")[:900])
gguf("cut in its weights", "but the file has", lambda: tiny_gguf.whole("llama")[:-64])
gguf("a billion tensors", "tensor_count", lambda: b"GGUF" + struct.pack("<IQQ", 3, 10**9, 0) + bytes(4096))
gguf(
    "a terabyte",
    "1,099,511,627,776 bytes",
    lambda: b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + tiny_gguf.info("t", [2**20, 2**18], 0, 0) + bytes(4096),
)
gguf("a context of a billion", "context = 1000000000", lambda: with_values(llama__context_length=10**9))
gguf("a billion layers", "layers = 1000000000", lambda: with_values(llama__block_count=10**9))
gguf("an end beyond the rows", "eos_token_id", lambda: with_values(tokenizer__ggml__eos_token_id=10**6))
gguf("a way of cutting of its own", "pre|add_space|model", lambda: with_values(tokenizer__ggml__model="evil"))
gguf(
    "a token of a megabyte",
    "the token .* is 1,048,576 characters long",
    lambda: with_values(tokenizer__ggml__tokens=[*tiny_gguf.PIECES[:-1], "ab" * 2**19]),
)


@hostile("GGUF: a pipe", r"model\.gguf", 2, 5)
def gguf_pipe(folder: Path) -> Path:
    folder.mkdir()
    os.mkfifo(folder / "model.gguf")
    return folder / "model.gguf"


@hostile("GGUF: a folder", r"model\.gguf", 2, 5)
def gguf_folder(folder: Path) -> Path:
    (folder / "model.gguf").mkdir(parents=True)
    return folder / "model.gguf"


def llama2c(name: str, says: str, content: Callable[[Path], bytes], *codes: int, beside: str = "file") -> None:
    def make(folder: Path) -> Path:
        folder.mkdir()
        (folder / "stories.bin").write_bytes(content(root_of(folder)))
        beside_it = folder / "tok512.bin"
        match beside:
            case "file":
                beside_it.write_bytes(struct.pack("<i", 10) + bytes(8 * 512))
            case "pipe":
                os.mkfifo(beside_it)
            case "link out":
                beside_it.symlink_to(root_of(folder) / OUTSIDE / beside_it.name)
        return folder / "stories.bin"

    hostile(f"llama2.c: {name}", says, *codes)(make)


def story(*sizes: int) -> bytes:
    """Width, hidden, layers, heads, key heads, vocabulary, context; and as many zeros as they ask for."""
    width, hidden, layers, heads, _, vocabulary, context = sizes
    each = width * 2 + width * width * 4 + 3 * width * hidden
    return struct.pack("<7i", *sizes) + bytes(
        4 * (vocabulary * width + layers * each + width + 2 * context * (width // heads // 2))
    )


SMALL = (8, 16, 1, 2, 2, 512, 16)
llama2c("a pickle", r"stories\.bin: header", lambda root: evil(root))
llama2c("cut off", r"stories\.bin: header", lambda root: story(*SMALL)[:-4])
llama2c("nothing", r"stories\.bin: header", lambda root: b"")
llama2c("a billion layers", r"stories\.bin: header", lambda root: struct.pack("<7i", 8, 16, 10**9, 2, 2, 512, 16))
llama2c("negative sizes", r"stories\.bin: header", lambda root: struct.pack("<7i", -8, 16, 1, 2, 2, 512, 16))
llama2c("a vocabulary of zeros", r"tok512\.bin: token 0", lambda root: story(*SMALL))
llama2c("no vocabulary", r"stories\.bin: .*tok\*\.bin", lambda root: story(*SMALL), 2, 5, beside="")
llama2c("a pipe for a vocabulary", r"tok512\.bin", lambda root: story(*SMALL), 2, 5, beside="pipe")
llama2c("a vocabulary outside", r"tok512\.bin", lambda root: story(*SMALL), 2, 5, beside="link out")


# ---- folders of our own ---------------------------------------------------------------------------------------------


def own(name: str, says: str) -> Callable[[Callable[[Path], None]], None]:
    """A folder of qkv's own format, imported from the good one, then changed."""

    def listed(change: Callable[[Path], None]) -> None:
        def make(folder: Path) -> None:
            from qkv.recipe import bundle

            source = tiny_folder.write(folder.with_name("source"))
            bundle.publish(folder, bundle.load(source))
            change(folder)

        hostile(f"our own: {name}", says)(make)

    return listed


@own("weights outside", r"model\.safetensors: .*out of the folder")
def own_link(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder.with_name("moved"))
    (folder / "model.safetensors").symlink_to("../moved")


@own("a manifest that lists a file outside", r"notes: .*out of the folder")
def own_listed(folder: Path) -> None:
    (folder / "notes").symlink_to(root_of(folder) / OUTSIDE / "config.json")
    listed = json.loads((folder / "manifest.json").read_text())
    listed["files"]["notes"] = listed["files"]["config.json"]
    (folder / "manifest.json").write_text(json.dumps(listed))


@own("a manifest outside", r"manifest\.json: .*out of the folder")
def own_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    (folder / "manifest.json").symlink_to(root_of(folder) / OUTSIDE / "config.json")


# ---- what does no harm ----------------------------------------------------------------------------------------------

INJECTION = "{{ ''.__class__.__mro__[1].__subclasses__() }}{% for x in range(10**9) %}{{ cycler.__init__ }}{% endfor %}"


@harmless("a template that would run a program")
def template(folder: Path) -> None:
    tiny_folder.write(folder)
    ran = root_of(folder) / RAN
    text = INJECTION + f"{{{{ cycler.__init__.__globals__.os.popen('touch {ran}').read() }}}}"
    values = {"eos_token": tiny_folder.SPECIAL[0], "chat_template": text, "tokenizer_class": "EvilTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(values))
    (folder / "chat_template.jinja").write_text(text)


@harmless("programs and pickles beside the weights")
def programs(folder: Path) -> None:
    tiny_folder.write(folder)
    program = f"import os\nos.system('touch {root_of(folder) / RAN}')\n"
    for name in ("modeling_evil.py", "sitecustomize.py", "safetensors.py", "tokenizers.py", "conftest.py"):
        (folder / name).write_text(program)
    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt"):
        (folder / name).write_bytes(evil(root_of(folder)))


@harmless("Hugging Face's own cache of links")
def cache(folder: Path) -> Path:
    snapshot = folder / "snapshots" / ("0" * 40)
    tiny_folder.write(snapshot)
    (folder / "blobs").mkdir()
    for number, path in enumerate(sorted(snapshot.iterdir())):
        blob = path.replace(folder / "blobs" / f"{number:064x}")
        path.symlink_to(f"../../blobs/{blob.name}")
    return snapshot


@harmless("two files and an index")
def shards(folder: Path) -> None:
    tiny_folder.write_in_shards(folder)
