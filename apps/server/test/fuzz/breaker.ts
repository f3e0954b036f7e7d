// Mutates requests like a fuzzer: truncates, repeats and swaps parts, and inserts garbage, up to 8 kB.
import {
  headers,
  injections,
  methods,
  numbers,
  operators,
  paramNames,
  paths,
  rawGarbage,
  specials,
} from './garbage.ts'
import { nameMark } from './markers.ts'
import type { Random } from './random.ts'
import { targetOf, type Wire } from './wire.ts'

const maxLength = 8000

/** Applies one to three mutations. Some results are still valid. */
export function broken(random: Random, wire: Wire): Wire {
  let result = wire
  for (let count = random.int(1, 3); count > 0; count--) result = random.pick(ways)(random, result)
  return bounded(result)
}

type Way = (random: Random, wire: Wire) => Wire

const ways: readonly Way[] = [
  spoilParam,
  spoilParam,
  spoilParam,
  spoilBody,
  (random, wire) => ({ ...wire, target: spoilRaw(random, targetOf(wire)) }),
  repeatParam,
  dropParam,
  strangeParam,
  (random, wire) => ({ ...wire, path: random.pick(paths) }),
  (random, wire) => ({ ...wire, path: spoil(random, wire.path) }),
  (random, wire) => ({ ...wire, method: random.pick(methods) }),
  strangeHeader,
  strangeHeader,
  nest,
]

function spoil(random: Random, text: string): string {
  const from = random.int(0, text.length)
  const to = Math.min(text.length, from + random.int(0, 12))
  const around = (middle: string) => text.slice(0, from) + middle + text.slice(to)
  return random.pick([
    () => text.slice(0, from),
    () => around(''),
    () => around(text.slice(from, to).repeat(random.int(2, 5))),
    () => text.slice(0, from) + random.pick(specials).repeat(random.pick([1, 1, 2, 9])) + text.slice(from),
    () => around(random.pick(injections)),
    () => around(random.pick(numbers)),
    () => text.replace(/7391[\d.]*/, () => random.pick(numbers)),
    () => around(nameMark(random)),
    () => text.replace(/\b(eq|neq|gt|lt|in|is|like|cs|fts)\b/, () => random.pick(operators)),
    () => text + random.pick(specials).repeat(random.int(100, 2000)),
    () => [...text].reverse().join(''),
  ])()
}

function spoilRaw(random: Random, target: string): string {
  const at = random.int(0, target.length)
  return target.slice(0, at) + random.pick(rawGarbage) + target.slice(at)
}

function spoilParam(random: Random, wire: Wire): Wire {
  const chosen = random.int(0, Math.max(0, wire.params.length - 1))
  const hitsName = random.chance(0.2)
  const params = wire.params.map(([name, value], at) => {
    if (at !== chosen) return [name, value] as const
    return hitsName ? ([spoil(random, name), value] as const) : ([name, spoil(random, value)] as const)
  })
  return { ...wire, params }
}

function spoilBody(random: Random, wire: Wire): Wire {
  return wire.body === undefined ? spoilParam(random, wire) : { ...wire, body: spoil(random, wire.body) }
}

function repeatParam(random: Random, wire: Wire): Wire {
  if (wire.params.length === 0) return wire
  const again = random.pick(wire.params)
  return {
    ...wire,
    params: [...wire.params, ...Array.from({ length: random.pick([1, 1, 2, 50]) }, () => again)],
  }
}

function dropParam(random: Random, wire: Wire): Wire {
  const dropped = random.int(0, Math.max(0, wire.params.length - 1))
  return { ...wire, params: wire.params.filter((_, at) => at !== dropped) }
}

function strangeParam(random: Random, wire: Wire): Wire {
  const value = random.pick([...injections, ...numbers, ...specials])
  return { ...wire, params: [...wire.params, [random.pick(paramNames), value]] }
}

function strangeHeader(random: Random, wire: Wire): Wire {
  const [name, values] = random.pick(Object.entries(headers))
  return { ...wire, headers: { ...wire.headers, [name]: random.pick(values) } }
}

/** Nests deeper than any real request. */
function nest(random: Random, wire: Wire): Wire {
  const times = random.pick([6, 40, 600])
  const deep = random.pick([
    ['or', `${'(or'.repeat(times)}(id.eq.1${')'.repeat(times + 1)}`],
    ['and', `(${'not.and('.repeat(times)}id.eq.1${')'.repeat(times + 1)}`],
    ['select', `${'people('.repeat(times)}*${')'.repeat(times)}`],
    ['select', `meta${'->a'.repeat(times)}`],
    ['id', `${'not.'.repeat(times)}eq.1`],
    ['id', `in.${'('.repeat(times)}1${')'.repeat(times)}`],
    ['nums', `cs.${'{'.repeat(times)}1${'}'.repeat(times)}`],
  ] as const)
  const body = wire.body === undefined ? {} : { body: '['.repeat(times) + ']'.repeat(times) }
  return { ...wire, params: [...wire.params, deep], ...(random.chance(0.5) && body) }
}

function bounded(wire: Wire): Wire {
  const target = targetOf(wire)
  return {
    ...wire,
    ...(target.length > maxLength && { target: target.slice(0, maxLength) }),
    ...(wire.body !== undefined && { body: wire.body.slice(0, maxLength).toWellFormed() }),
  }
}
