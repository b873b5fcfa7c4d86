"""Answers of bulk reads, message by message, and journals that are worth reading."""

import itertools
from array import array
from random import Random

from penstock.model.message import Extras, Signature
from penstock.store.batch import Batch

TOPIC = b"t"


def u32(column):
    return array("I", bytes(column)).tolist()


def u64(column):
    return array("Q", bytes(column)).tolist()


def messages_of(answer):
    """Every message of an answer: offset, sequence, time, flags, payload, extras."""
    return [message for part in answer.slices for message in messages_in(part)]


def messages_in(part):
    bounds = u32(part.bounds)
    starts = [*u32(part.run_starts), part.count]
    extras = _extras(part)
    types = part.run_types or bytes(len(part.run_flags))
    for run, (start, end) in enumerate(itertools.pairwise(starts)):
        for number in range(start, end):
            yield (
                part.first_offset + number,
                part.base_sequence + u32(part.run_positions)[run] + number - start,
                part.time_ms + u32(part.run_times)[run],
                part.run_flags[run] | types[run] << 8,
                part.payloads[bounds[number] - bounds[0] : bounds[number + 1] - bounds[0]],
                extras.get(number),
            )


def _extras(part):
    headers, signatures, schedules = _headers(part), _signatures(part), _schedules(part)
    return {
        number: Extras(
            headers.get(number, ()), signatures.get(number), *schedules.get(number, (0, 0))
        )
        for number in {*headers, *signatures, *schedules}
    }


def _headers(part):
    bounds, texts = u32(part.header_bounds), u32(part.header_text_bounds)
    found = {}
    for place, number in enumerate(u32(part.header_numbers)):
        first, last = (2 * (bounds[at] - bounds[0]) for at in (place, place + 1))
        cuts = [at - texts[0] for at in texts[first : last + 1]]
        words = [part.header_texts[a:b] for a, b in itertools.pairwise(cuts)]
        found[number] = tuple(zip(words[::2], words[1::2], strict=True))
    return found


def _signatures(part):
    found = {}
    for place, number in enumerate(u32(part.signature_numbers)):
        record = part.signatures[88 * place : 88 * place + 88]
        nonce = record[72 : 72 + record[85]]
        signed_ms = int.from_bytes(record[64:72], "little")
        key_id = int.from_bytes(record[80:84], "little")
        found[number] = Signature(record[84], key_id, record[:64], signed_ms, nonce)
    return found


def _schedules(part):
    times = zip(u64(part.schedule_due), u64(part.schedule_expiry), strict=True)
    return dict(zip(u32(part.schedule_numbers), times, strict=True))


def notes_in(part):
    ends = [0, *u32(part.producer_name_ends)]
    names = [part.producer_names[a:b] for a, b in itertools.pairwise(ends)]
    numbers, counts = u32(part.producer_numbers), u32(part.producer_counts)
    return list(zip(numbers, counts, names, u64(part.producer_seqs), strict=True))


def numbered(parts):
    """Producer and seq by offset, from notes."""
    return {
        first_offset + number + place: (producer, seq + place)
        for first_offset, notes in parts
        for number, count, producer, seq in notes
        for place in range(count)
    }


def extras_of(dice, number):
    headers = tuple((b"h%d" % n, bytes(dice.randrange(9))) for n in range(dice.randrange(4)))
    signature = Signature(2, number + 1, bytes([number % 256]) * 64, number, b"nonce")
    has = dice.randrange(8)
    if not has:
        return None
    return Extras(
        headers if has & 1 else (),
        signature if has & 2 else None,
        *((number, number + 5) if has & 4 else (0, 0)),
    )


def fill(store, seed, entries=6):
    """Entries with several topics in turn, so that runs are short and groups begin anywhere."""
    dice = Random(seed)
    for _ in range(entries):
        batch = Batch()
        for _ in range(dice.randrange(1, 9)):
            topic = dice.choice([b"a", TOPIC, TOPIC, b"z"])
            count = dice.randrange(1, 60)
            payloads = [dice.randbytes(dice.randrange(20)) for _ in range(count)]
            extras = [extras_of(dice, number) for number in range(count)]
            bare = dice.randrange(3) == 0
            flags = dice.randrange(4) | dice.randrange(8) << 4 | dice.randrange(4) << 8
            time_ms = 1_700_000_000_000 + dice.randrange(1000)
            batch.append(topic, payloads, time_ms, flags, None if bare else extras)
            if dice.randrange(2):
                place = len(batch.groups[topic].payloads) - count
                batch.add_producer_run(
                    topic, place, count, b"p%d" % dice.randrange(12), 100 * place
                )
        store.commit(batch)
