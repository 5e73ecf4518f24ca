"""What a text claims, and whether given sources hold it: no invented amount passes.

A claim is an amount, a percentage, a date, a reference, an e-mail address, a telephone number, an
IBAN or a number, in French or in English, in digits or in words. `missing` takes the claims of a
text, or of the arguments of a call, and gives those that no source holds:

    sources = Sources.of(texts=[question], values=[result_of_a_tool])
    for claim in missing(answer, sources):
        print(claim)

Everything here is a function of its arguments: no model, no clock, no input or output. The time
taken grows as the length of what is given, whatever it says.

A doubt never lets a value pass. What is written so that it cannot be read, and stands where an
amount does, is missing. What has several readings passes when a source holds one of them. Values
are compared exactly: 1 840 is 1840.00, and is neither 1 839.99 nor 920 twice. Which kind of fact
holds which kind of claim is the table `HELD_BY`.
"""

from loom_ia.policies.grounded.matrix import HELD_BY
from loom_ia.policies.grounded.missing import Missing, missing
from loom_ia.policies.grounded.scan import claims
from loom_ia.policies.grounded.sources import Sources
from loom_ia.policies.grounded.values import ALL, Claim, Kind, Value

__all__ = [
    "ALL",
    "HELD_BY",
    "Claim",
    "Kind",
    "Missing",
    "Sources",
    "Value",
    "claims",
    "missing",
]
