"""Folders as Helsinki-NLP's opus-mt models are: two vocabularies of sentencepiece's under one numbering, and a model.

The vocabularies are learned from Multi30k by the sentencepiece package; the folder is saved by transformers itself.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from data_at_hand import real

SIZE = 2000  # pieces of each language
LINES = 6000
SHAPE: dict[str, Any] = {
    "d_model": 48, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "max_position_embeddings": 128, "scale_embedding": True,
    "activation_function": "swish", "static_position_embeddings": True, "normalize_embedding": False,
    "add_bias_logits": False, "forced_eos_token_id": 0,
}  # fmt: skip
# spaces, accents in one or two parts, wide letters, ligatures, unknown characters, no characters at all
HARD = [
    "",
    " ",
    "   \t\n ",
    "a",
    " leading",
    "trailing ",
    "two  spaces   three",
    "tab\tand\nline\r\nend",
    "\xa0no\u2009break\u3000wide ",
    "café naïve Ærø straße ŁÓDŹ",
    "cafe\u0301 nai\u0308ve A\u030angstro\u0308m",
    "tiê\u0301ng Viê\u0323t e\u0302\u0301 o\u031b\u0300",
    "ﬁne ﬂow oﬃce ĳs ǆ",
    "Ｆｕｌｌ\u3000ｗｉｄｔｈ\u3000１２３！",
    "Ａ\u0301 Ｂ\u0323",
    "が ガ ｶﾞ ﾊﾟ",
    "각 각",
    "中文字符 日本語",
    "Привет мир",
    "\U0001f600 \U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea ☃️",
    "x\U0001f600y",
    "½ ¾ ² ™ № ℃ ㎏ …",
    "¨ ´ ¸ a¨b",
    "▁",
    "▁▁ word ▁",
    "a ▁ b",
    "\u200b\u200d\ufeff zero\u200bwidth",
    "\xadsoft\xadhyphen",
    "\x00\x01\x02 control \x7f\x80\x9f",
    "\uffff \ufffe � \U0010ffff",
    "\uffff\uffffa",
    "ß",
    "größer ß Ölçü",
    'Don\'t "quote" ‘curly’ “double” – — dash',
    "http://example.com/?q=1&r=%20#x",
    "1,000.50 €5 £6 ¥7 100%",
    "ALL CAPS and MiXeD",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "\u0301\u0301 lone accents",
    "हिन्दी क़",
    "العربية ﷺ",
    "ไทย",
    "<2de> <|end|> <0x0A> [MASK]",
    "a >>fra<< b",
]


def lines(name: str, most: int | None = None) -> list[str]:
    with gzip.open(real(f"multi30k/{name}.gz"), "rt", encoding="utf-8", newline="\n") as file:
        return file.read().removesuffix("\n").split("\n")[:most]


def learn(place: Path, texts: Sequence[str], **changes: Any) -> Path:
    """A vocabulary by sentencepiece itself."""
    import sentencepiece

    options = {"vocab_size": SIZE, "model_type": "unigram", "normalization_rule_name": "nmt_nfkc"}
    options |= {"character_coverage": 1.0, "num_threads": 1, "minloglevel": 2, **changes}
    with place.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=file, **options)
    return place


def pieces(place: Path) -> list[str]:
    import sentencepiece

    opened = sentencepiece.SentencePieceProcessor(model_file=str(place))
    return [opened.id_to_piece(n) for n in range(len(opened)) if not opened.is_control(n) and not opened.is_unknown(n)]


def vocabularies(place: Path) -> Path:
    """source.spm, target.spm and vocab.json, which numbers the pieces of both, as Marian does."""
    place.mkdir(parents=True)
    for name, language in (("source", "en"), ("target", "de")):
        learn(place / f"{name}.spm", lines(f"train.{language}", LINES))
    number(place)
    return place


def number(place: Path, tags: Sequence[str] = (), kept: Callable[[str], bool] = lambda piece: True) -> None:
    """Write vocab.json anew."""
    both = sorted({*pieces(place / "source.spm"), *pieces(place / "target.spm")})
    named = ["</s>", "<unk>", *tags, *filter(kept, both), "<pad>"]
    (place / "vocab.json").write_text(json.dumps({name: at for at, name in enumerate(named)}))


def model(words: Any, ending: float = 0.0, **changes: Any) -> Any:
    """A random MarianMTModel for a vocabulary; `ending` makes it end sooner."""
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(11)
    ids = {"eos_token_id": words.eos_token_id, "pad_token_id": words.pad_token_id, "bos_token_id": 0}
    ids |= {"decoder_start_token_id": words.pad_token_id, "vocab_size": len(words), "decoder_vocab_size": len(words)}
    made = MarianMTModel(MarianConfig(**SHAPE, **ids, **changes)).eval()
    for parameter in made.parameters():
        if parameter.requires_grad:
            nn.init.normal_(parameter, mean=0.5 if parameter.dim() == 1 else 0.0, std=0.3)
    nn.init.normal_(made.final_logits_bias)
    made.final_logits_bias[0, words.eos_token_id] += ending
    made.generation_config.bad_words_ids = [[words.pad_token_id]]
    made.generation_config.update(num_beams=4, max_length=128, forced_eos_token_id=0)
    return made


def folder(place: Path, vocabulary: Path, ending: float = 0.0) -> tuple[Any, Any]:
    """A whole folder, saved by theirs; their tokenizer and their model."""
    from transformers import MarianTokenizer

    files = (str(vocabulary / name) for name in ("source.spm", "target.spm", "vocab.json"))
    words = MarianTokenizer(*files, source_lang="en", target_lang="de")
    made = model(words, ending)
    made.save_pretrained(place)
    words.save_pretrained(place)
    return words, made
