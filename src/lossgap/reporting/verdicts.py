"""The top of the page: who gains, who loses and how even that is, before anything has to be read off a chart."""

from lossgap.metrics import INDIFFERENT
from lossgap.reporting.html import bullets, paragraph, tag, words
from lossgap.reporting.page import Section
from lossgap.reporting.plain import Evidence, Method
from lossgap.reporting.words import Numbers, evenness, percent, takeaways, who


def verdict_section(evidence: Evidence) -> Section:
    cards = tag("ul", *(_card(evidence, method) for method in evidence.methods), class_="verdicts")
    inside = [
        paragraph(introduction(evidence)),
        bullets(evidence.notes, "notes"),
        bullets(takeaways(evidence), "takeaways"),
        cards,
        paragraph(what_a_loss_is(evidence.unit), "small"),
    ]
    return Section("verdict", "Who gains, who loses", "".join(inside))


def introduction(evidence: Evidence) -> str:
    return (
        f"{len(evidence.names)} clients share one model. A client's gap is the loss of that model on its "
        f"{evidence.measured_on} minus the best loss it reaches alone: below zero it gains by joining, above zero it "
        f"loses. A gap within {INDIFFERENT:g} of zero counts as no difference."
    )


def what_a_loss_is(unit: str) -> str:
    """Losses in words, where their unit is known."""
    if unit == "nats":
        return (
            "Losses are mean cross-entropies in nats: a loss of 0.1 less means that the right answer gets about 1.1 "
            "times the probability, on geometric average. Guessing between two classes costs 0.693 nats, between ten "
            "2.303."
        )
    return "Losses are mean squared errors, in the target's unit squared." if unit == "squared error" else ""


def _card(evidence: Evidence, method: Method) -> str:
    numbers = Numbers.of(evidence)
    title = tag("h3", words(method.name), _badges(evidence, method))
    accuracy = (
        f"Accuracy {percent(method.mean('mean_accuracy'))}, at worst {percent(method.mean('worst_accuracy'))} "
        f"({evidence.accuracy_on})."
        if evidence.columns_known("test_accuracy")
        else ""
    )
    remarks = list(dict.fromkeys(remark for run in method.runs for remark in run.remarks))
    sentences = [who(method, numbers), evenness(method, numbers), accuracy, *remarks]
    return tag("li", title, _share(method), *(paragraph(_capital(sentence)) for sentence in sentences))


def _badges(evidence: Evidence, method: Method) -> str:
    if len(evidence.methods) == 1:
        return ""
    fewest = min(len(each.standing("loses")) for each in evidence.methods)
    most = max(len(each.standing("loses")) for each in evidence.methods)
    accuracies = [each.mean("mean_accuracy") for each in evidence.methods]
    earned = [
        "most even" if method is evidence.most_even else "",
        "fewest lose" if len(method.standing("loses")) == fewest < most else "",
        "most accurate" if method.mean("mean_accuracy") == max(accuracies) > min(accuracies) else "",
    ]
    badges = [tag("span", badge, class_="badge") for badge in earned if badge]
    return tag("span", " ".join(badges), class_="badges") if badges else ""


def _share(method: Method) -> str:
    """How many gain and how many lose, as a bar and in figures."""
    counts = [(kind, verb, len(method.standing(kind))) for kind, verb in STANDINGS]
    bar = "".join(
        f'<span class="{CLASSES[kind]}" style="flex:{number}"></span>' for kind, _, number in counts if number
    )
    figures = "".join(
        tag("span", f"{number} {verb}", class_=CLASSES[kind])
        for kind, verb, number in counts
        if number or kind != "same"
    )
    return tag("div", bar, class_="share", aria_hidden="true") + tag("p", figures, class_="counts")


STANDINGS = (("gains", "gain"), ("same", "no difference"), ("loses", "lose"))
CLASSES = {"gains": "gain", "same": "same", "loses": "loss"}


def _capital(sentence: str) -> str:
    """Names keep their spelling; other sentences begin with a capital."""
    first = sentence.split(" ", 1)[0]
    return sentence[:1].upper() + sentence[1:] if first in ("nobody", "all", "no") else sentence
