"""What is compared of runs with broken streams."""

from .lives import in_words, violations


def same(references, cases, outcomes):
    """Each outcome is that of a life in which nothing went wrong."""
    for (case, life), outcome in zip(cases, outcomes, strict=True):
        reference, _ = references[life]
        assert outcome == reference, (
            f"{life.__name__}: {in_words(outcome)}\nis not\n{in_words(reference)}\n{case.state()}"
        )
        assert violations(case) == []
