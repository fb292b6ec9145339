from __future__ import annotations

import time

import pytest

from rag.sentences import sentences

WHOLE = {
    "de": [
        "Resturlaub verfällt am 31. März des Folgejahres.",
        "Resturlaub verfällt am\n31. März des Folgejahres.",
        "Die Frist endet am 1. April 2027.",
        "Die Inventur findet am 15. Mai statt.",
        "Am 3. Mai beginnt der Umbau.",
        "Der 1. Mai ist ein Feiertag.",
        "Die Messe ist vom 1./2. Mai bis zum 31. Dez. 2027 geöffnet.",
        "Der Vertrag endet am 31. 12. 2027 ohne Kündigung.",
        "Der Vertrag endet am 31.12. 2027 ohne Kündigung.",
        "Der 2. Stock ist gesperrt.",
        "Der\n2. Stock ist gesperrt.",
        "Das Gesetz ging in 3. Lesung durch, und der 1. Vorsitzende war dabei.",
        "Im 19. Jahrhundert und im II. Weltkrieg war das anders.",
        "Das Treffen mit Hrn. Schmidt und Fr. Dr. Weber ist am Mo. 5. Januar.",
        "Das Gerät, z. B. der Scanner, kostet ca. 300 EUR.",
        "Wir brauchen z. B. Strom, d. h. Energie, u. a. Wasser, i. d. R. Gas und i. A. des Chefs.",
        "Cäsar starb 44 v. Chr. in Rom, vgl. Abb. 3 und Bd. 2, Kap. 4.",
        "Die Zentrale ist in der Hauptstr. 5, Tel. 0123.",
        "Geöffnet ist Mo. – Fr. 9.00 Uhr bis max. 17 Uhr.",
        "Der Umsatz ist rd. 3 Mio. Euro seit dem 1. Jan. 2027 und der 100. Kunde ist Frau Weber geb. Otto.",
        "Es regelt § 5 Abs. 2 Nr. 3 des Gesetzes.",
    ],
    "en": [
        "The contract ends on Sept. 30 2027.",
        "The audit is on Jan. 5.",
        "They meet on Mon. Jan. 5 at nine.",
        "The offer is valid until 31. March and not longer.",
        "It was signed in Dec. 2026.",
        "Capt. Miller heads the fleet.",
        "Gen. Grant met Sen. Brown and Prof. Hill.",
        "Dr. Smith pays approx. 5 EUR to Acme Inc. in the U.S. at 9 a.m. on St. James Road, see No. 5.",
        "It was Bonn vs. Rome in Smith et al. and others.",
        "Take a tool, e. g. a saw, i. e. Something sharp.",
        "Tools (saws, files, etc.) are in the shed.",
    ],
    "es": ["Las Sras. García y el Sr. López, p. ej. Ana, viven en la Avda. Goya.", "Vence el 5 de ene. 2027, pág. 12."],
    "fr": ["Mme. Dupont et M. Martin, c.-à-d. Les associés, partent le 3 janv. 2027.", "Voir p. ex. Paris, art. 5."],
    "it": ["Il Sig. Rossi e la Dott. Bianchi, per es. Lunedì, art. 3.", "Scade il 5 gen. 2027."],
    "pt": ["O Exmo. Silva e a Profa. Costa, p. ex. Ana, na pág. 3."],
    "nl": ["Dhr. Jansen en mevr. De Vries komen bijv. Maandag, d.w.z. Morgen.", "Het eindigt op 31. maart, blz. 3."],
    "da": [
        "Det skete i den 2. Verdenskrig og er ikke glemt, f.eks. Bornholm.",
        "Møde den 1. Maj kl. 9 med hr. Jensen.",
    ],
    "sv": ["Det är t. ex. Lund och bl. a. Malmö som har det."],
    "pl": ["To nie jest ul. Nowa, np. Kraków, a od 2. Pułku się zaczyna."],
    "tr": ["Bu 2. Dünya Savaşı ile ilgili, örn. Ankara.", "Bu 29. Ekim ile ilgili."],
    "cs": ["Smlouva končí 31. března 2027.", "Konec je 31. 12. 2027 v Praze."],
    "ru": ["Это написал А. С. Пушкин."],
}
SPLIT = {
    "de": [
        ("Die Frist endet am 31. Die Kündigung ist schriftlich.", 2),
        ("Das steht auf Seite 15. Frühstück gibt es später.", 2),
        ("Der Preis: 15. Versand ist frei.", 2),
        ("Die Antwort ist 42. Danach ist alles klar.", 2),
        ("Der Umsatz ist jetzt 3 Mio. Das ist viel.", 2),
        ("Der Kunde zahlt 5. Oktober ist zu spät.", 2),
        ("Das Treffen ist am Fr. Die Anmeldung ist offen.", 2),
        ("Es dauert nur 5 min. 3 Personen sind dabei.", 2),
        ("Die Schritte sind:\n1. Mai abwarten\n2. Juni planen", 3),
        ("Es gilt für\n1. Mitarbeiter und\n2. Gäste", 3),
    ],
    "en": [
        ("It costs 31. March is cheaper.", 2),
        ("You may choose 12. May I ask which?", 2),
        ("It costs 45. March is cheaper.", 2),
        ("Section 3. The next one is here.", 2),
        ("It takes 8 hr. Then it is done.", 2),
        ("It ends in Dec. The report follows.", 2),
        ("It opens at 9 a.m. The doors close at noon.", 2),
        ("They came on Sat. Then they left.", 2),
        ("It costs 5. 10.25 EUR is more.", 2),
        ("This is chapter II. The next one is longer.", 2),
        ("The rest is kept by\n1. Finance and\n2. Legal", 3),
        ("He asked why (it was late). Then he left.", 2),
    ],
    "es": [("El precio es 15. Mayo es más caro.", 2), ("Así es. Luego se van.", 2), ("Quiero ir. Mañana es tarde.", 2)],
    "fr": [("Le prix est 15. Les frais sont en plus.", 2)],
    "it": [("Il prezzo è 15. Marzo è più caro.", 2)],
    "pt": [("O preço é 15. Os custos são mais.", 2)],
    "nl": [("Het kost 15. Morgen is het meer.", 2)],
    "da": [("Det koster 15. Prisen er ikke høj.", 2)],
    "sv": [("Det kostar 15. Priset är inte högt.", 2)],
    "pl": [("To nie jest 15. Pułk się zaczyna.", 2)],
    "tr": [("Bu sayı 15. Bu daha çok.", 2)],
}


@pytest.mark.parametrize("text", [text for texts in WHOLE.values() for text in texts])
def test_abbreviations_dates_and_ordinals_stay_whole(text: str) -> None:
    assert [piece for _, piece in sentences(text)] == [text]


@pytest.mark.parametrize(("text", "pieces"), [case for cases in SPLIT.values() for case in cases])
def test_a_number_or_a_short_word_can_end_a_sentence(text: str, pieces: int) -> None:
    assert len(list(sentences(text))) == pieces


@pytest.mark.parametrize(
    "unit", ["Der 2. Stock. ", "z. B. ", "am 31. März ", "II. ", "1. ", "x. " * 3, "5 \n1. Mai ", "Ⅷ. "]
)
def test_many_stops_take_time_in_proportion(unit: str) -> None:
    def taken_s(times: int) -> float:
        began = time.process_time()
        assert list(sentences("Das ist " + unit * times))
        return time.process_time() - began

    few = min(taken_s(500) for _ in range(3))
    many = min(taken_s(8_000) for _ in range(2))

    assert many < 64 * few + 0.05  # as the square, it would be 256 times as long
