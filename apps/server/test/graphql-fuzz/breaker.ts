// Breaks documents and their variables. Some results are still valid.
import { injections, numbers, specials } from '../fuzz/garbage.ts'
import type { Random } from '../fuzz/random.ts'
import type { DocumentBody } from './document.ts'

/** A body in which each member can have any type. */
export interface BrokenBody {
  readonly query?: unknown
  readonly variables?: unknown
  readonly operationName?: unknown
  readonly extensions?: unknown
}

/** Applies one to three mutations. Half of the documents keep their syntax, so that they reach the later checks. */
export function broken(random: Random, document: DocumentBody): BrokenBody {
  const ways = random.chance(0.5) ? inMeaning : inSyntax
  let result = document
  for (let count = random.pick([1, 1, 2, 3]); count > 0; count--) result = random.pick(ways)(random, result)
  return random.chance(0.05) ? withStrangeMember(random, result) : result
}

type Way = (random: Random, document: DocumentBody) => DocumentBody

const inText =
  (change: (random: Random, text: string) => string): Way =>
  (random, document) => ({ ...document, query: change(random, document.query) })

const inTokens =
  (change: (random: Random, tokens: string[]) => void): Way =>
  (random, document) => {
    const tokens = document.query.match(/\w+|\s+|[^\w\s]/g) ?? []
    if (tokens.length > 0) change(random, tokens)
    return { ...document, query: tokens.join('') }
  }

const inVariable =
  (change: (random: Random, value: unknown) => unknown): Way =>
  (random, document) => {
    const names = Object.keys(document.variables)
    if (names.length === 0) return breakCharacters(random, document)
    const name = random.pick(names)
    return {
      ...document,
      variables: { ...document.variables, [name]: change(random, document.variables[name]) },
    }
  }

const words = (text: TemplateStringsArray) => String.raw(text).trim().split(/\s+/)

const tokens = words`{ } ( ) [ ] $ ! : , = | & @ # " """ ... -1 0 1e999 99999999999999999999 null true query mutation
  subscription fragment on @skip(if:true) @include(if:$v0) @unknown __typename __schema{types{name}} __type(name:"Query"){name}
  {} [] {id} $v0 $unknown`

const names = words`id nowhere apples boxes cratesCollection depotsCollection applesByPk nodeId node edges first last after
  filter orderBy and or not some every eq in is __proto__ constructor toString hasOwnProperty __typename
  deleteFromapplesCollection pg_sleep`

const place = (random: Random, list: ArrayLike<unknown>): number => random.int(0, list.length - 1)

/** Removes, repeats, replaces or inserts characters. */
const breakCharacters = inText((random, text) => {
  const from = random.int(0, text.length)
  const to = Math.min(text.length, from + random.int(1, 12))
  const middle = random.pick([
    () => '',
    () => text.slice(from, to).repeat(random.int(2, 3)),
    () => random.pick(specials),
    () => random.pick(specials) + text.slice(from, to),
    () => random.pick(injections),
    () => random.pick(numbers),
  ])()
  return text.slice(0, from) + middle + text.slice(to)
})

const isName = (token: string) => /^[A-Za-z_]/.test(token)

/** Replaces a token of the given kind. */
const inSome = (
  is: (token: string) => boolean,
  other: (random: Random, list: readonly string[]) => string,
): Way =>
  inTokens((random, list) => {
    const places = list.flatMap((token, at) => (is(token) ? [at] : []))
    if (places.length > 0) list[random.pick(places)] = other(random, list)
  })

const inSyntax: readonly Way[] = [
  breakCharacters,
  breakCharacters,
  inText((random, text) => text.slice(0, random.int(0, text.length))),
  inTokens((random, list) => void list.splice(place(random, list), 1)),
  inTokens((random, list) => void list.splice(place(random, list), 0, random.pick(tokens), ' ')),
  inTokens((random, list) => void list.splice(place(random, list), 1, random.pick(tokens))),
  inTokens((random, list) => {
    const [from, to] = [place(random, list), place(random, list)]
    ;[list[from], list[to]] = [list[to]!, list[from]!]
  }),
]

const inMeaning: readonly Way[] = [
  inSome(isName, random => random.pick(names)),
  inSome(isName, (random, list) => random.pick(list.filter(isName))),
  inSome(
    token => /^\d+$/.test(token),
    random => random.pick(numbers),
  ),
  inVariable(random => random.pick(strangeValues)),
  inVariable(strangeInside),
  inVariable(strangeInside),
  (random, { query, variables }) => {
    const kept = random.sample(Object.entries(variables), Object.keys(variables).length - 1)
    return { query, variables: { ...Object.fromEntries(kept), unknown: random.pick(strangeValues) } }
  },
]

const cursorOf = (text: string) => Buffer.from(text).toString('base64')

const strangeValues: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  1e300,
  2 ** 31,
  '',
  [],
  {},
  [[]],
  [null],
  { id: null },
  { id: {} },
  { id: { eq: null } },
  { id: { eq: [1] } },
  { id: { in: [null, {}] } },
  { id: { is: 'MAYBE' } },
  { and: {} },
  { or: [null] },
  { not: { not: { not: {} } } },
  { nowhere: { eq: 1 } },
  JSON.parse('{"__proto__": {"eq": 1}}'),
  ...['', 'x', '[', '{}', '[]', '[null]', '["x"]', '[1, 2, 3, 4]', '[{}]', '[1e400]', '["\\u0000"]'].map(
    cursorOf,
  ),
  ...specials,
  ...injections,
  ...numbers,
]

/** Replaces one member, or its name, somewhere inside an object or list. */
function strangeInside(random: Random, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || random.chance(0.2)) return random.pick(strangeValues)
  if (Array.isArray(value)) {
    const at = random.int(0, value.length)
    return [...value.slice(0, at), strangeInside(random, value[at]), ...value.slice(at + 1)]
  }
  const members = Object.entries(value)
  if (members.length === 0) return { [random.pick(names)]: random.pick(strangeValues) }
  const at = place(random, members)
  const [name, inner] = members[at]!
  members[at] = random.chance(0.3) ? [random.pick(names), inner] : [name, strangeInside(random, inner)]
  return Object.fromEntries(members)
}

const withStrangeMember = (random: Random, document: DocumentBody): BrokenBody => ({
  ...document,
  [random.pick(['query', 'variables', 'operationName', 'extensions'])]: random.pick(strangeValues),
})
