"""A small real language model behind OpenAI's chat API, on this machine, without a key.

It is there to check the wire and the loop of an agent with a model that nobody scripted. It says
nothing about the quality of models: Gemma 3 270M is a base model, never taught to follow
instructions nor to call tools.

Law. The server guides the form, the model writes what is in it.

    the server   shows the model a few solved examples, with tools that nobody offers, then the
                 conversation in the same form; allows only an answer, a call of an offered tool
                 whose arguments fit its schema, or JSON that fits the schema that was asked for;
                 offers as numbers only those that the user and the tools wrote (`1 250,50` read as
                 1250.5), unless it was started with `--free-numbers`
    the model    decides between an answer and a call, names the tool, chooses which optional
                 arguments to give and which of the numbers goes where, writes every other value
                 and every word and figure of an answer

Nothing is computed, corrected or written in the model's place, and nothing is remembered: pieces
leave as they are generated, one to a token, and tokens are counted by the engine that ran them.
"""
