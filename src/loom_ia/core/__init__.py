"""The law of a run: pure values and functions, no clock, randomness, environment or coroutine.

Facts come in, decisions come out. `model` holds the vocabulary, `state` what a run is now,
`events` what can happen to it, `decide` what to do next, `views` what a person reads of it,
and `ports` the signatures that the outside world must honour.
"""
