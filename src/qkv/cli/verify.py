"""`qkv verify`: proofs about a model that anyone can run."""

from __future__ import annotations

from qkv.cli.output import Json, document, table


def verify(model: str, *, json: Json = False) -> None:
    """Prove that a model is what was written and that every way of using it gives the same answers.

    Each line shows one proof and the largest difference that was found; the exit code is 5 when one fails.

    Parameters
    ----------
    model
        A run folder, a model folder, a Hugging Face folder, a .gguf file or a .bin of llama2.c.
    """
    import qkv
    from qkv.errors import RefusedError
    from qkv.studies.verify import proofs_of

    proofs = list(proofs_of(qkv.load(model)).all())
    if json:
        document(
            {"model": model, "passed": all(p.passed is not False for p in proofs), "proofs": [vars(p) for p in proofs]}
        )
    else:
        columns = ("proof", "result", "difference", "what was compared")
        words = {True: "passed", False: "FAILED", None: "-"}
        rows = [(p.name, words[p.passed], "" if p.largest is None else f"{p.largest:.1e}", p.said) for p in proofs]
        table("", columns, rows, words=columns)
    failed = [p for p in proofs if p.passed is False]
    if failed:
        raise RefusedError(f"{model}: {', '.join(p.name for p in failed)} failed. {failed[0].said}")
