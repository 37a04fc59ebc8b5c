"""Speakable names of runs: `brave-otter-4821`."""

from __future__ import annotations

import os
import random
from collections.abc import Container

_ADJECTIVES = """
able amber brave bright brisk calm candid clear clever cosmic crisp daring eager early fair fleet fresh gentle
glad golden grand hardy honest humble jolly keen kind lively lucid lucky mellow merry mild modest neat nimble
noble patient plain polite proud quick quiet ready round sharp silent silver smooth snowy solid spry steady
still stout sunny swift tidy trusty vivid warm wise witty young
"""
_ANIMALS = """
badger beaver bison bittern crane cricket curlew dolphin dormouse dove eagle egret falcon ferret finch fox gecko
gibbon grouse hare hawk heron ibex ibis jackdaw kestrel koala lark lemur linnet lynx magpie marten mole moth
newt nuthatch ocelot oriole osprey otter owl panda parrot pelican petrel pika plover puffin quail raven robin
salmon seal shrew siskin sparrow starling stoat stork swallow swan swift tern thrush toad trout turtle vole
walrus warbler weasel whale wombat wren
"""
ADJECTIVES = tuple(_ADJECTIVES.split())
ANIMALS = tuple(_ANIMALS.split())


_random = random.Random()  # private, so that seeding the global generator does not repeat names
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


def new_name(taken: Container[str]) -> str:
    while True:
        name = f"{_random.choice(ADJECTIVES)}-{_random.choice(ANIMALS)}-{_random.randrange(10_000):04d}"
        if name not in taken:
            return name
