// Values of every column type in the input format of Postgres. There are few different ones per type, so that filters and
// orders find equal values.
import { numberMark, valueMark } from './markers.ts'
import type { Random } from './random.ts'
import type { Kind } from './schema.ts'

/** Suffixes of marked texts, with characters that have a meaning in some grammar. */
const flavours = [
  '',
  '',
  " O'Brien",
  ', comma',
  ' (paren)',
  ' "quoted"',
  ' back\\slash',
  ' ünï 漢字 😀',
  ' 100%',
  ' a_b',
  '.dot:colon',
  ' {brace}',
  ' -- ;',
  ' $1 ?',
  ' null',
  '\ttab',
  ' a+b&c=d#e',
  ' *',
]
export const moods = ['sad', 'ok', 'happy', 'so,so', 'say "hi"']
export const words = ['cat', 'dog', 'bird', 'fish', 'horse']

const twoDigits = (random: Random, most: number) => String(random.int(1, most)).padStart(2, '0')
const int = (random: Random) => `${numberMark}000${twoDigits(random, 40)}`
const day = (random: Random) => `${numberMark}-${twoDigits(random, 12)}-${twoDigits(random, 28)}`
const text = (random: Random) => `${valueMark(random)}${random.pick(flavours)}`
const list = <T>(random: Random, most: number, make: () => T) =>
  Array.from({ length: random.int(0, most) }, make)
export const quoted = (text: string) => `"${text.replace(/["\\]/g, '\\$&')}"`
export const arrayLiteral = (elements: readonly string[]) => `{${elements.map(quoted).join(',')}}`

const makers: Record<Kind, (random: Random) => string> = {
  int,
  bigint: random => `${numberMark}00000000${twoDigits(random, 30)}`,
  numeric: random => `${numberMark}${twoDigits(random, 30)}.${random.pick(['5', '25', '00', '125'])}`,
  float: random => `${numberMark}${random.int(0, 9)}.${random.pick(['5', '25', '75'])}`,
  text,
  bool: random => random.pick(['true', 'false']),
  timestamptz: random => `${day(random)} ${twoDigits(random, 23)}:00:00${random.pick(['', '.5'])}+00`,
  date: day,
  uuid: random => `${numberMark}0000-0000-4000-8000-0000000000${twoDigits(random, 30)}`,
  jsonb: jsonValue,
  'int[]': random => `{${list(random, 4, () => (random.chance(0.1) ? 'NULL' : int(random))).join(',')}}`,
  'text[]': random =>
    arrayLiteral(list(random, 3, () => (random.chance(0.5) ? random.pick(words) : text(random)))),
  int4range: rangeLiteral,
  mood: random => random.pick(moods),
  tsvector: random =>
    [valueMark(random), ...random.sample(words, random.int(0, 3))]
      .map((word, at) => `'${word}':${at + 1}`)
      .join(' '),
}

export const rightValue = (kind: Kind, random: Random): string => makers[kind](random)

function jsonValue(random: Random): string {
  const object = {
    a: Number(int(random)),
    b: random.chance(0.2) ? null : text(random),
    c: { d: list(random, 3, () => Number(int(random))), e: random.pick(moods) },
    ...(random.chance(0.5) && { flag: random.chance(0.5) }),
    ...(random.chance(0.1) && { a: text(random) }),
  }
  return JSON.stringify(random.chance(0.05) ? [object] : object)
}

function rangeLiteral(random: Random): string {
  const [low, high] = [int(random), int(random)].sort() as [string, string]
  const open = random.pick(['[', '('])
  const close = random.pick([']', ')'])
  return random.pick([
    `${open}${low},${high}${close}`,
    `${open}${low},${high}${close}`,
    `${open}${low},)`,
    `(,${high}${close}`,
    'empty',
  ])
}

const neverNumbers = [
  '',
  'abc',
  '12x',
  '--1',
  '٣',
  '1e400',
  'NaN',
  '0x',
  '1 2',
  '99999999999999999999',
  '1.5.2',
]
const wrong: Partial<Record<Kind, readonly string[]>> = {
  int: neverNumbers,
  bigint: neverNumbers,
  bool: ['maybe', '', '2', 'vrai'],
  timestamptz: ['yesterdayish', `${numberMark}-13-01`, '25:00', ''],
  date: [`${numberMark}-02-30`, 'x', ''],
  uuid: ['7391', 'not-a-uuid', '{', ''],
  jsonb: ['{', '{"a":}', 'nul', "{'a':1}", ''],
  'int[]': ['{', '{a}', '1,2', '{1,{2}}'],
  'text[]': ['{', 'a', '{"a}', '{a}}'],
  int4range: ['[2,1]', '[a,b]', '1', '[1,2', ''],
  mood: ['furious', '', 'SAD'],
}

/** A value that Postgres rejects for this type, or undefined if it accepts every text. */
export function wrongValue(kind: Kind, random: Random): string | undefined {
  const found = wrong[kind]
  return found && random.pick(found)
}
