// The media types of the Accept header, with the representations that are built in.
import { Refusal } from '#src/kernel/errors.ts'
import type { Form } from '#src/query/answer-sql.ts'
import type { Explain, ExplainOption } from '#src/query/planned-statement.ts'

export interface Accepted {
  /** Names everything here that a plan depends on. */
  readonly key: string
  /** Best first. */
  readonly choices: readonly Choice[]
  /** The plan of the statement is wanted instead of rows. */
  readonly explain?: Explain
}

export interface Choice {
  readonly type: string
  readonly builtIn?: Media
  /** A type of PostgREST itself, which no function of the project replaces. */
  readonly isVendor: boolean
}

export interface Media {
  readonly form: Form
  readonly contentType: string
}

const json: Media = {
  form: { kind: 'array', stripsNulls: false },
  contentType: 'application/json; charset=utf-8',
}
const anything: Accepted = {
  key: '*/*',
  choices: [{ type: '*/*', builtIn: json, isVendor: false }],
}
const plain: Accepted = {
  key: 'json',
  choices: [{ type: 'application/json', builtIn: json, isVendor: false }],
}

const maxCached = 500
const longestCached = 500
/** Media types in a header, and parameters in a media type. */
const maxParts = 50
const known = new Map<string, Accepted>()

export function acceptedFrom(header: string | undefined): Accepted {
  if (header === 'application/json') return plain
  if (header === undefined || header === '*/*') return anything
  const found = known.get(header)
  if (found) return found
  const chosen = read(header)
  if (header.length > longestCached) return chosen
  if (known.size >= maxCached) known.clear()
  known.set(header, chosen)
  return chosen
}

interface MediaRange {
  type: string
  parameters: ReadonlyMap<string, string>
  weight: number
}

function read(header: string): Accepted {
  const ranges = splitOutsideQuotes(header, ',')
    .map(mediaRange)
    .filter(({ weight }) => weight > 0)
    .toSorted((a, b) => b.weight - a.weight)
  const [first] = ranges
  const plan = first && planOf(first)
  if (plan) return plan
  const choices = ranges.map(
    (range): Choice => ({ type: range.type, ...offer(range), isVendor: range.type.startsWith(vendor) }),
  )
  return { key: JSON.stringify(choices.map(({ type, builtIn }) => [type, builtIn?.form])), choices }
}

const vendor = 'application/vnd.pgrst.'

function offer({ type, parameters }: MediaRange): { builtIn?: Media } {
  const stripsNulls = parameters.get('nulls') === 'stripped'
  const suffix = `${stripsNulls ? ';nulls=stripped' : ''}; charset=utf-8`
  const media = (form: Form, contentType: string) => ({ builtIn: { form, contentType } })
  switch (type) {
    case '*/*':
    case 'application/*':
    case 'application/json':
      return { builtIn: json }
    case 'application/vnd.pgrst.array+json':
    case 'application/vnd.pgrst.array':
      return media({ kind: 'array', stripsNulls }, `application/vnd.pgrst.array+json${suffix}`)
    case 'application/vnd.pgrst.object+json':
    case 'application/vnd.pgrst.object':
      return media({ kind: 'object', stripsNulls }, `application/vnd.pgrst.object+json${suffix}`)
    case 'text/csv':
      return media({ kind: 'csv' }, 'text/csv; charset=utf-8')
    case 'application/geo+json':
      return media({ kind: 'geojson' }, 'application/geo+json; charset=utf-8')
    default:
      return {}
  }
}

const explainOptions: ReadonlySet<string> = new Set<ExplainOption>([
  'analyze',
  'verbose',
  'settings',
  'buffers',
  'wal',
])
const isExplainOption = (option: string): option is ExplainOption => explainOptions.has(option)

const planType = /^application\/vnd\.pgrst\.plan(?:\+(text|json))?$/

function planOf({ type, parameters }: MediaRange): Accepted | undefined {
  const found = planType.exec(type)
  const options = (parameters.get('options') ?? '').split('|').filter(option => option !== '')
  if (!found || !options.every(isExplainOption)) return
  const { builtIn } = offer({ type: parameters.get('for') ?? '*/*', parameters: new Map(), weight: 1 })
  if (!builtIn) return
  const explain: Explain = { format: found[1] === 'json' ? 'json' : 'text', options }
  const media = { form: builtIn.form, contentType: `${type}; charset=utf-8` }
  return {
    key: JSON.stringify([type, explain, builtIn.form]),
    choices: [{ type, builtIn: media, isVendor: true }],
    explain,
  }
}

function mediaRange(text: string): MediaRange {
  const [type = '', ...rest] = splitOutsideQuotes(text, ';')
  const parameters = new Map(
    rest.map(each => {
      const [name = '', ...value] = each.split('=')
      return [
        name.trim().toLowerCase(),
        value
          .join('=')
          .trim()
          .replace(/^"(.*)"$/, '$1'),
      ]
    }),
  )
  const weight = Number(parameters.get('q') ?? 1)
  return { type: type.trim().toLowerCase(), parameters, weight: Number.isNaN(weight) ? 1 : weight }
}

function splitOutsideQuotes(text: string, separator: string): string[] {
  const pieces: string[] = []
  let piece = ''
  let isQuoted = false
  for (const character of text) {
    if (character === '"') isQuoted = !isQuoted
    if (character === separator && !isQuoted) {
      if (pieces.push(piece) === maxParts)
        throw new Refusal('PGRST107', `The Accept header holds more than ${maxParts} parts`, {
          hint: 'Ask for application/json, application/vnd.pgrst.object+json or text/csv.',
        })
      piece = ''
    } else piece += character
  }
  return [...pieces, piece]
}
