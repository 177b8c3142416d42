"""What people read about the rules is what the rules are."""

from tests.support.checked_in import ROOT, hold
from trainyard_policies import reference, rules


def test_the_page_that_is_checked_in_is_current():
    hold(ROOT / "docs/policies/rules.md", reference.page())


def test_every_rule_has_its_own_section():
    for rule in rules.ALL:
        assert reference.page().count(f"\n## {rule.docs.split('#')[1]}\n") == 1


def test_texts_are_whole_sentences():
    for rule in rules.ALL:
        assert rule.title[0].isupper(), rule.id
        assert not rule.title.endswith("."), rule.id
        assert (rule.why[-1], rule.remedy[-1]) == (".", "."), rule.id
