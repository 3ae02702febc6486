"""Every encoder that classifiers and taggers take: padding, shapes, gradients, configs, and parity with torch.nn."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from qkv.blocks.attention import open_attention
from qkv.blocks.embeddings import NgramEmbedding, NgramSum, hashed
from qkv.blocks.heads import AttentionPooling, MeanPooling
from qkv.blocks.initialization import outline
from qkv.blocks.ngrams import Alphabet, Characters, letter_ngrams, word_ngrams
from qkv.blocks.recurrent import reversed_texts
from qkv.blocks.tap import taps
from qkv.config import parse, toml_values
from qkv.data.encode import EncodedRows
from qkv.errors import ConfigError
from qkv.evaluation.vectors import text_vectors, token_vectors
from qkv.models.bag_of_ngrams import BagConfig
from qkv.models.bert import BertConfig
from qkv.models.classifier import ClassifierConfig
from qkv.models.cnn import CNNConfig
from qkv.models.encoder import EncoderConfig
from qkv.models.encoders import FromLanguageModel, build
from qkv.models.gpt import GPTConfig
from qkv.models.linear import Linear, LinearConfig
from qkv.models.linear_words import LinearWordsConfig
from qkv.models.llama import LlamaConfig
from qkv.models.mlp import MLPConfig
from qkv.models.modern import ModernConfig
from qkv.models.modern_fast import ModernFastConfig
from qkv.models.recurrent_encoder import RecurrentEncoderConfig
from qkv.models.registry import LANGUAGE_MODELS, TEXT_ENCODERS
from qkv.models.rnn import RecurrentConfig
from qkv.models.tagger import TaggerConfig
from qkv.models.text_cnn import TextCNNConfig
from qkv.objectives.ngram_rows import count_ngrams

VOCABULARY, CONTEXT, LABELS = 19, 12, ("bad", "so", "good")
SIZE: dict[str, Any] = {"vocabulary": VOCABULARY, "context": CONTEXT}
SHAPE: dict[str, Any] = {**SIZE, "width": 24}
DEEP: dict[str, Any] = {**SHAPE, "layers": 2, "heads": 2}
READERS: dict[str, Any] = {
    "bert": BertConfig(**DEEP),
    "bag": BagConfig(**SHAPE),
    "bag-ngrams": BagConfig(**SHAPE, ngrams=3, buckets=31, word_dropout=0.3),
    "linear": LinearConfig(**SIZE, width=3, ngrams=4, letters=3, features=80),
    "linear-words": LinearConfig(**SIZE, width=3, ngrams=1, features=12),
    "linear-tagger": LinearWordsConfig(**SIZE, width=3, features=90),
    "text-cnn": TextCNNConfig(**SHAPE, embedding_width=10),
    "text-cnn-deep": TextCNNConfig(**SHAPE, layers=3, kernels=(1, 2, 3, 9), dropout=0.1),
    "rnn-both": RecurrentEncoderConfig(**SHAPE, cell="rnn", start="learned"),
    "gru-one": RecurrentEncoderConfig(**SHAPE, cell="gru", layers=2, directions=1, embedding_width=7),
    "lstm-both": RecurrentEncoderConfig(**SHAPE, cell="lstm", layers=2, dropout=0.2),
    "lstm-learned": RecurrentEncoderConfig(**SHAPE, cell="lstm", layers=2, start="learned"),
    "lstm-features": RecurrentEncoderConfig(**SHAPE, features=90, feature_dropout=0.2, dropout=0.1),
    "encoder": EncoderConfig(**DEEP),
    "encoder-post": EncoderConfig(**DEEP, positions="learned", norm="post", activation="gelu", segments=2),
    "encoder-rotary": EncoderConfig(**DEEP, positions="rotary", dropout=0.1, hidden=17),
    "encoder-none": EncoderConfig(**DEEP, positions="none", norm="post"),
}
WRITERS: dict[str, Any] = {
    "modern": ModernConfig(**DEEP),
    "modern-tied": ModernConfig(**DEEP, head="tied", window=3),
    "gpt": GPTConfig(**DEEP, dropout=0.1),
    "llama": LlamaConfig(**DEEP),
    "qwen2": LlamaConfig(**DEEP, kind="qwen2"),
    "lstm": RecurrentConfig(**SHAPE, kind="lstm", layers=2, dropout=0.1),
    "rnn": RecurrentConfig(**SHAPE, kind="rnn", start="learned", input="one-hot"),
    "mlp": MLPConfig(**SHAPE),
    "cnn": CNNConfig(**SHAPE, layers=2),
    "modern-fast": ModernFastConfig(**DEEP, table=50),
}
WRITERS |= {  # those without a variant of their own as they come
    kind: config(**SHAPE, kind=kind)
    for kind, config in LANGUAGE_MODELS.items()
    if config not in {type(variant) for variant in WRITERS.values()}
}
CONFIGS = {**READERS, **WRITERS}
EVERY = pytest.mark.parametrize("name", CONFIGS)
CLOSE = {"atol": 1e-5, "rtol": 1e-5}
LENGTHS = [12, 5, 1, 8]
PRESENT = torch.arange(CONTEXT) < torch.tensor(LENGTHS).unsqueeze(1)


def randomized(model: Any, seed: int = 0) -> Any:
    """Every parameter random, in evaluation: a start of zeros would hide what a part does."""
    for part in model.modules():
        if isinstance(part, Linear):
            know_features(part)
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    return model.eval()


def know_features(model: Linear) -> None:
    """Let a linear model know n-grams of the texts below."""
    alphabet = Alphabet.of(["", None, *"abcdefghi. !?jkx中"[: VOCABULARY - 2]])
    tokens = text()
    rows = torch.arange(len(tokens)).repeat_interleave(CONTEXT)
    characters: Characters = alphabet.read(tokens.flatten(), rows, None)
    grams = word_ngrams(characters, model.ngrams)
    keys = torch.unique(grams.and_also(letter_ngrams(characters, model.letters)).keys if model.letters else grams.keys)
    chosen = keys[torch.linspace(0, len(keys) - 1, len(model.keys)).long()]
    model.learn_features(alphabet, chosen.sort().values, torch.ones(len(model.keys)))


def built(name: str) -> Any:
    torch.manual_seed(0)
    return randomized(build(CONFIGS[name], len(LABELS)))


def around(name: str, kind: Any, **values: Any) -> Any:
    torch.manual_seed(0)
    return randomized(kind(encoder=CONFIGS[name], labels=LABELS, **values).build())


def text(rows: int = len(LENGTHS), length: int = CONTEXT) -> Tensor:
    return torch.randint(VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(1))


def test_every_kind_of_the_union_is_here() -> None:
    writers = {config for config in LANGUAGE_MODELS.values() if config.__module__.startswith("qkv.")}  # not the users'
    readers = {config for config in TEXT_ENCODERS.values() if config.__module__.startswith("qkv.")}
    assert {type(config) for config in CONFIGS.values()} == readers | writers
    assert {type(config) for config in WRITERS.values()} == writers


@EVERY
def test_a_vector_for_every_token(name: str) -> None:
    model = built(name)
    assert (model.vocabulary, model.context, model.width) == (VOCABULARY, CONTEXT, CONFIGS[name].width)
    for length in (1, 2, CONTEXT):
        assert model(text(2, length)).shape == (2, length, model.width)
    assert isinstance(CONFIGS[name].layers, int)


@EVERY
def test_computes_in_bf16_on_every_processor(name: str) -> None:
    model, tokens = built(name), text()
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model(tokens, PRESENT)
    rounded.float().sum().backward()
    exact = model(tokens, PRESENT)
    assert F.cosine_similarity(exact[PRESENT], rounded.float()[PRESENT], dim=-1).min() > 0.95


@EVERY
@torch.no_grad()
def test_padding_changes_nothing(name: str) -> None:
    """A text alone and beside longer ones, whatever stands where nothing is; and a present of all True is none."""
    model, tokens = built(name), text()
    found = model(tokens, PRESENT)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(found[row, :length], model(tokens[row : row + 1, :length])[0], **CLOSE)
    again = model(torch.where(PRESENT, tokens, (tokens + 1) % VOCABULARY), PRESENT)
    torch.testing.assert_close(again[PRESENT], found[PRESENT], **CLOSE)
    torch.testing.assert_close(model(tokens, torch.ones_like(PRESENT)), model(tokens), **CLOSE)


@EVERY
@torch.no_grad()
def test_the_order_of_texts_does_not_matter(name: str) -> None:
    model, tokens, order = built(name), text(), torch.tensor([2, 0, 3, 1])
    found, turned = model(tokens, PRESENT), model(tokens[order], PRESENT[order])
    torch.testing.assert_close(turned[PRESENT[order]], found[order][PRESENT[order]], **CLOSE)


@EVERY
def test_gradients_reach_every_parameter(name: str) -> None:
    model, tokens = built(name).train(), text()
    segments = (torch.arange(CONTEXT) > 3).long().expand_as(tokens)
    model(tokens, PRESENT, segments)[PRESENT].square().sum().backward()
    still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not still, f"no gradient: {still}"


@EVERY
@pytest.mark.parametrize("kind", [ClassifierConfig, TaggerConfig])
def test_a_config_is_read_as_it_was_written(name: str, kind: Any) -> None:
    config = kind(encoder=CONFIGS[name], labels=LABELS)
    assert parse(kind, toml_values(config), "config.json") == config
    assert (config.vocabulary, config.width, config.context) == (VOCABULARY, CONFIGS[name].width, CONTEXT)
    with outline():
        config.build()


@EVERY
@pytest.mark.parametrize("pooling", ["mean", "max", "last", "attention"])
@torch.no_grad()
def test_a_classifier_does_not_see_padding(name: str, pooling: str) -> None:
    model, tokens = around(name, ClassifierConfig, pooling=pooling), text()
    found = model(tokens, PRESENT)
    assert found.shape == (len(LENGTHS), len(LABELS))
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(found[row], model(tokens[row : row + 1, :length])[0], **CLOSE)


@EVERY
@torch.no_grad()
def test_a_tagger_does_not_see_padding(name: str) -> None:
    model, tokens = around(name, TaggerConfig), text()
    found = model(tokens, PRESENT)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(found[row, :length], model(tokens[row : row + 1, :length])[0], **CLOSE)


@EVERY
@torch.no_grad()
def test_it_can_be_copied_saved_and_loaded(name: str, tmp_path: Path) -> None:
    model, tokens = around(name, ClassifierConfig, pooling="attention"), text()
    expected = model(tokens, PRESENT)
    twin = copy.deepcopy(model)
    for parameter in twin.parameters():
        parameter.zero_()
    assert torch.equal(model(tokens, PRESENT), expected)
    assert twin(tokens, PRESENT).eq(0).all()
    weights = model.state_dict()
    parameters = {name for name, _ in model.named_parameters()}
    assert parameters <= set(weights) <= {*parameters, *(name for name, _ in model.named_buffers())}
    assert not [name for name in weights if name.startswith("encoder.head")]
    save_file(weights, tmp_path / "model.safetensors")
    other = randomized(copy.deepcopy(model), seed=9)
    assert not torch.allclose(other(tokens, PRESENT), expected)
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(other(tokens, PRESENT), expected)


@EVERY
def test_a_fresh_classifier_learns(name: str) -> None:
    """From its own start, what can be known from the words: which label each of a few texts has."""
    torch.manual_seed(0)
    model = ClassifierConfig(encoder=CONFIGS[name], labels=LABELS).build()
    if isinstance(model.encoder, Linear):
        know_features(model.encoder)
    tokens, labels = text(), torch.tensor([0, 1, 2, 1])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(40):
        loss = F.cross_entropy(model(tokens, PRESENT), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) / 5 < 0.8 * losses[0]


@pytest.mark.parametrize("name", [name for name in CONFIGS if "linear" not in name and "bag" not in name])
@torch.no_grad()
def test_vectors_by_layer_can_be_had(name: str) -> None:
    """`qkv embed` looks into a classifier; the last layer is what the pooling sees."""
    model, rows = around(name, ClassifierConfig), [[1, 2, 3], [4, 5, 6, 7, 8]]
    for row, found in zip(rows, token_vectors(model, rows), strict=True):
        torch.testing.assert_close(found, model.encoder(torch.tensor([row]))[0], **CLOSE)
    assert text_vectors(model, rows).shape == (2, 24)


@pytest.mark.parametrize("name", [name for name in READERS if "encoder" in name])
@torch.no_grad()
def test_open_attention_is_the_same(name: str) -> None:
    model, tokens = built(name), text()
    with open_attention(model):
        opened = model(tokens, PRESENT)
    torch.testing.assert_close(opened[PRESENT], model(tokens, PRESENT)[PRESENT], **CLOSE)
    assert "blocks.1.attention.sublayer.weights" in taps(model)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"encoder": {"kind": "bags"}},
            "encoder = 'bags' is not known; expected one of linear, linear-words, bag, text-cnn",
        ),
        (
            {"encoder": {"kind": "bag", "ngrams": 6}},
            "encoder.ngrams = 6 does not fit; expected less than or equal to 5",
        ),
        ({"encoder": {"kind": "bag", "ngram": 2}}, "unknown key 'encoder.ngram'; did you mean 'ngrams'?"),
        ({"encoder": {"kind": "text-cnn", "width": 100}}, "width 100 does not divide into 3 kernels"),
        ({"encoder": {"kind": "text-cnn", "kernels": []}}, "encoder.kernels"),
        ({"encoder": {"kind": "recurrent-encoder", "width": 7}}, "width 7 does not divide into 2 directions"),
        ({"encoder": {"kind": "recurrent-encoder", "directions": 3}}, "encoder.directions = 3"),
        ({"encoder": {"kind": "encoder", "width": 12, "positions": "rotary"}}, "must be even"),
        (
            {"encoder": {"kind": "encoder", "norm": "both"}},
            "encoder.norm = 'both' does not fit; expected 'pre' or 'post'",
        ),
        ({"encoder": {"kind": "gpt"}, "pooling": "pooler"}, "needs encoder.pooler = 'first', not 'none'"),
        ({"encoder": {"kind": "linear"}, "head": "two-layer"}, "a linear model gives the scores itself"),
        ({"encoder": {"kind": "linear"}, "dropout": 0.5}, "a linear model gives the scores itself"),
        ({"encoder": {"kind": "patches", "patch": 5}}, "does not divide into patches of 5"),
        ({"encoder": {"kind": "picture-cnn", "layers": 5}}, "cannot be halved 5 times"),
    ],
)
def test_bad_values_are_refused_in_words(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace("?", r"\?")):
        parse(ClassifierConfig, values, "recipe.toml")


def test_a_tagger_takes_no_pictures() -> None:
    with pytest.raises(ConfigError, match="encoder = 'patches' is not known"):
        parse(TaggerConfig, {"encoder": {"kind": "patches"}}, "recipe.toml")


# parity


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@torch.no_grad()
def test_the_encoder_is_torchs(norm: Any, activation: Any) -> None:
    config = EncoderConfig(**DEEP, norm=norm, activation=activation, hidden=40)
    ours = randomized(config.build())
    layer = nn.TransformerEncoderLayer(
        24, 2, 40, dropout=0.0, activation=activation, batch_first=True, norm_first=norm == "pre"
    )
    theirs = nn.TransformerEncoder(
        layer, 2, norm=nn.LayerNorm(24) if norm == "pre" else None, enable_nested_tensor=False
    ).eval()
    for block, other in zip(ours.blocks, theirs.layers, strict=True):
        attention, network = block.attention.sublayer, block.feedforward.sublayer
        inputs = [attention.query, attention.key, attention.value]
        pairs = [
            (attention.output, other.self_attn.out_proj),
            (network.inner, other.linear1),
            (network.outer, other.linear2),
            (block.attention.norm, other.norm1),
            (block.feedforward.norm, other.norm2),
        ]
        other.self_attn.in_proj_weight.copy_(torch.cat([part.weight for part in inputs]))
        other.self_attn.in_proj_bias.copy_(torch.cat([part.bias for part in inputs]))
        for mine, their in pairs:
            their.load_state_dict(mine.state_dict())
    if norm == "pre":
        theirs.norm.load_state_dict(ours.norm.state_dict())
    tokens, places = text(), torch.arange(CONTEXT).unsqueeze(1)
    angles = places / 10000 ** (torch.arange(0, 24, 2) / 24)  # Vaswani et al. 2017, section 3.5
    waves = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
    expected = theirs(ours.embedding(tokens) + waves, src_key_padding_mask=~PRESENT)
    torch.testing.assert_close(ours(tokens, PRESENT)[PRESENT], expected[PRESENT], **CLOSE)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "none"])
@torch.no_grad()
def test_order_counts_unless_there_are_no_positions(positions: Any) -> None:
    model, tokens = randomized(EncoderConfig(**DEEP, positions=positions).build()), text()
    turned = model(tokens.flip(1)).flip(1)
    assert torch.allclose(turned, model(tokens), **CLOSE) == (positions == "none")


@torch.no_grad()
def test_segments_are_heard_where_there_are_any() -> None:
    tokens = text()
    for name, heard in (("encoder-post", True), ("encoder", False)):
        model = built(name)
        assert torch.equal(model(tokens), model(tokens, None, torch.zeros_like(tokens)))
        assert torch.allclose(model(tokens), model(tokens, None, torch.ones_like(tokens))) != heard


@pytest.mark.parametrize(("name", "layer"), [("rnn-both", nn.RNN), ("lstm-both", nn.LSTM), ("lstm-learned", nn.LSTM)])
@torch.no_grad()
def test_both_directions_are_torchs(name: str, layer: Any) -> None:
    """Theirs sees packed texts, each of its own length."""
    model, tokens, layers = built(name), text(), CONFIGS[name].layers
    theirs = layer(24, 12, layers, batch_first=True, bidirectional=True)
    starts = []
    for depth, block in enumerate(model.blocks):
        for part, ending in zip(block.parts, ("", "_reverse"), strict=True):
            starts.append(torch.stack(part.start()))  # (parts, 1, 1, K)
            for key, value in part.layer.state_dict().items():
                getattr(theirs, f"{key[:-1]}{depth}{ending}").copy_(value)
    hidden = torch.cat(starts, 1).expand(-1, -1, len(tokens), -1).contiguous().unbind(0)
    packed = pack_padded_sequence(model.embedding(tokens), LENGTHS, batch_first=True, enforce_sorted=False)
    output, _ = theirs(packed, hidden if layer is nn.LSTM else hidden[0])
    expected, _ = pad_packed_sequence(output, batch_first=True)
    torch.testing.assert_close(model(tokens, PRESENT)[PRESENT], expected[PRESENT], **CLOSE)


def test_texts_are_turned_within_their_length() -> None:
    x = torch.arange(24.0).view(2, 12, 1)
    turned = reversed_texts(x, torch.arange(12) < torch.tensor([[12], [3]]))
    assert turned[0].flatten().tolist() == list(range(11, -1, -1))
    assert turned[1].flatten().tolist() == [14, 13, 12, *range(15, 24)]
    assert torch.equal(reversed_texts(x), x.flip(1))


@torch.no_grad()
def test_the_text_cnn_is_made_of_torchs_convolutions() -> None:
    model, tokens = built("text-cnn"), text()
    x = model.embedding(tokens).mT  # (B, T, D) -> (B, D, T)
    parts = []
    for kernel, width in zip(model.blocks[0].kernels, (3, 4, 5), strict=True):
        theirs = nn.Conv1d(10, 8, width, padding="valid")
        theirs.weight.copy_(kernel.weight.view(8, width, 10).mT)
        theirs.bias.copy_(kernel.bias)
        parts.append(theirs(F.pad(x, ((width - 1) // 2, width // 2))).relu().mT)
    torch.testing.assert_close(model(tokens), torch.cat(parts, -1), **CLOSE)
    classifier = around("text-cnn", ClassifierConfig, pooling="max")
    by_hand = classifier.head(
        torch.stack([classifier.encoder(tokens)[row, :n].amax(0) for row, n in enumerate(LENGTHS)])
    )
    alone = torch.cat([classifier(tokens[row : row + 1, :n]) for row, n in enumerate(LENGTHS)])
    torch.testing.assert_close(classifier(tokens, PRESENT), alone, **CLOSE)
    torch.testing.assert_close(classifier(tokens)[0], by_hand[0], **CLOSE)


@torch.no_grad()
def test_the_mean_of_a_bag_leaves_padding_out() -> None:
    """Deck 004's classifier, by hand."""
    model, tokens = around("bag", ClassifierConfig), text()
    table = model.encoder.embedding.tokens.weight
    means = torch.stack([table[tokens[row, :length]].mean(0) for row, length in enumerate(LENGTHS)])
    torch.testing.assert_close(model(tokens, PRESENT), F.linear(means, model.head.weight, model.head.bias), **CLOSE)


@torch.no_grad()
def test_ngrams_by_hand() -> None:
    """Each n-gram that lies within the text adds its row, and one word changes those that hold it."""
    block = randomized(NgramSum(VOCABULARY, 4, longest=3, table=10_007))
    tokens = torch.tensor([[3, 5, 7, 9]])
    present = torch.tensor([[True, True, True, False]])

    def row(*words: int) -> Tensor:
        number = hashed(torch.tensor([words]), len(words), VOCABULARY, 10_007, start=len(words))
        return block.ngrams.weight[int(number)]

    words = block.tokens.weight[tokens[0]]
    expected = torch.stack([words[0], words[1] + row(3, 5), words[2] + row(5, 7) + row(3, 5, 7), words[3]])
    torch.testing.assert_close(block(tokens, present)[0], expected)
    whole = expected + torch.stack([*[torch.zeros(4)] * 3, row(7, 9) + row(5, 7, 9)])
    torch.testing.assert_close(block(tokens)[0], whole)
    pairs = torch.cartesian_prod(torch.arange(19), torch.arange(19))
    assert len(hashed(pairs, 2, VOCABULARY, 100_003).unique()) == 361, "a large table tells all pairs apart"


def test_the_hash_has_not_moved() -> None:
    """Models that were trained with it find their rows again."""
    table = NgramEmbedding(VOCABULARY, 4, order=3, table=101)
    assert table.rows(torch.tensor([[1, 2, 3, 4]])).tolist() == [[87, 79, 57, 35]]


@pytest.mark.parametrize("name", ["linear", "linear-words"])
@torch.no_grad()
def test_a_linear_model_is_the_product_of_counts_and_weights(name: str) -> None:
    """Two paths, one answer: character by character, and from the rows that a solver is given."""
    model, tokens = around(name, ClassifierConfig), text()
    encoder = model.encoder
    starts = [0, *torch.tensor(LENGTHS).cumsum(0).tolist()]
    rows = EncodedRows(tokens[PRESENT].numpy().astype("uint16"), np.array(starts))
    counts = count_ngrams(rows, encoder.alphabet, encoder.ngrams, encoder.letters).only(encoder.keys.numpy())
    found = encoder.scores(counts.weighted(encoder.idf.numpy()))
    torch.testing.assert_close(model(tokens, PRESENT), found, **CLOSE)
    assert len(torch.unique(found[:, 0])) > 1


def test_a_linear_model_is_as_wide_as_its_labels() -> None:
    config = ClassifierConfig(encoder=LinearConfig(**SIZE), labels=LABELS)
    assert config.width == 3
    assert config.build().encoder.bias.shape == (3,)


@pytest.mark.parametrize("config", [ClassifierConfig, TaggerConfig])
def test_another_width_of_a_linear_model_is_refused_where_it_is_named(config: Any) -> None:
    """As a recipe is read, before anything is built: a wrong value is no bug in qkv."""
    encoder = {"kind": "linear", "vocabulary": 9, "width": 7}
    with pytest.raises(ConfigError, match=r"expected encoder\.width = 3 \(or 0\), not 7"):
        parse(config, {"encoder": encoder, "labels": LABELS}, "the recipe")


def test_words_are_dropped_whole() -> None:
    torch.manual_seed(0)
    model = BagConfig(**SHAPE, word_dropout=0.5).build()
    tokens = text(50)
    found, kept = model.train()(tokens), model.eval()(tokens)
    gone = found.eq(0).all(-1)
    assert 0.4 < gone.float().mean() < 0.6
    torch.testing.assert_close(found[~gone], 2 * kept[~gone])


@torch.no_grad()
def test_attention_pooling() -> None:
    """It starts as the mean; with a question it prefers what answers."""
    x, pooling = torch.randn(4, CONTEXT, 6), AttentionPooling(6)
    torch.testing.assert_close(pooling(x, PRESENT), MeanPooling()(x, PRESENT), **CLOSE)
    nn.init.normal_(pooling.query)
    shares = (x[1, :5] @ pooling.query).softmax(0)
    torch.testing.assert_close(pooling(x, PRESENT)[1], shares @ x[1, :5], **CLOSE)
    assert pooling(x, torch.zeros_like(PRESENT)).eq(0).all()


@pytest.mark.parametrize("name", WRITERS)
@torch.no_grad()
def test_a_language_model_is_an_encoder(name: str) -> None:
    """Its head on the encoder's vectors gives its logits; a trained one's weights fit; no state in between."""
    torch.manual_seed(0)
    model, tokens = randomized(CONFIGS[name].build()), text()
    encoder = build(CONFIGS[name], 3).eval()
    assert isinstance(encoder, FromLanguageModel)
    weights = {name: value for name, value in model.state_dict().items() if not name.startswith("head.")}
    encoder.load_state_dict(weights)
    assert torch.equal(model.head(encoder(tokens)), model(tokens))
    assert torch.equal(model.vectors(tokens), encoder(tokens))
    trained = encoder.train()
    assert all(part.training for part in trained.modules())
