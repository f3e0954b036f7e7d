// Chooses a media type from the Accept header.
import { Refusal } from '#src/kernel/errors.ts'
import type { Form } from '#src/query/answer-sql.ts'
import type { Explain, ExplainOption } from '#src/query/planned-statement.ts'

export interface Accepted {
  /** Names everything here that a plan depends on. */
  readonly key: string
  readonly form: Form
  readonly contentType: string
  readonly explain?: Explain
}

const plain = accepted({ kind: 'array', stripsNulls: false }, 'application/json; charset=utf-8')

function accepted(form: Form, contentType: string, explain?: Explain): Accepted {
  return { key: JSON.stringify([form, explain]), form, contentType, ...(explain && { explain }) }
}

const maxCached = 500
const longestCached = 500
/** Media types in a header, and parameters in a media type. */
const maxParts = 50
const known = new Map<string, Accepted>()

export function acceptedFrom(header: string | undefined): Accepted {
  if (header === undefined || header === '*/*' || header === 'application/json') return plain
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
  for (const range of ranges.toSorted((a, b) => b.weight - a.weight)) {
    const offered = offer(range)
    if (offered) return offered
  }
  throw new Refusal('PGRST107', `None of these media types are available: ${header.slice(0, 200)}`, {
    hint: 'Ask for application/json, application/vnd.pgrst.object+json or text/csv.',
  })
}

function offer({ type, parameters }: MediaRange): Accepted | undefined {
  const stripsNulls = parameters.get('nulls') === 'stripped'
  const suffix = `${stripsNulls ? ';nulls=stripped' : ''}; charset=utf-8`
  switch (type) {
    case '*/*':
    case 'application/*':
    case 'application/json':
      return plain
    case 'application/vnd.pgrst.array+json':
    case 'application/vnd.pgrst.array':
      return accepted({ kind: 'array', stripsNulls }, `application/vnd.pgrst.array+json${suffix}`)
    case 'application/vnd.pgrst.object+json':
    case 'application/vnd.pgrst.object':
      return accepted({ kind: 'object', stripsNulls }, `application/vnd.pgrst.object+json${suffix}`)
    case 'text/csv':
      return accepted({ kind: 'csv' }, 'text/csv; charset=utf-8')
    case 'application/geo+json':
      return accepted({ kind: 'geojson' }, 'application/geo+json; charset=utf-8')
    case 'application/vnd.pgrst.plan':
    case 'application/vnd.pgrst.plan+text':
    case 'application/vnd.pgrst.plan+json':
      return planOf(type, parameters)
    default:
      return
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

function planOf(type: string, parameters: ReadonlyMap<string, string>): Accepted | undefined {
  const format = type.endsWith('+json') ? 'json' : 'text'
  const options = (parameters.get('options') ?? '').split('|').filter(option => option !== '')
  if (!options.every(isExplainOption)) return
  const explained = offer({ type: parameters.get('for') ?? '*/*', parameters: new Map(), weight: 1 })
  return explained && accepted(explained.form, `${type}; charset=utf-8`, { format, options })
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
