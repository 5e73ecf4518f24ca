"""Claims of an answer about actions that nothing in the journal shows: "I sent it", and it was not.

Law. Pure and deterministic: no model, no clock. A claim is a statement that an action is over, in
the words of its verb, in French or in English. What is denied, intended, supposed, asked, quoted or
told of somebody else claims nothing; in doubt nothing is claimed. An action is only shown by an
effect that is `done`.
"""

from loom_ia.policies.phantom.claims import Claim, Effected, phantom_claims
from loom_ia.policies.phantom.lexicon import DEFAULTS, Action, Verb

__all__ = ["DEFAULTS", "Action", "Claim", "Effected", "Verb", "phantom_claims"]
