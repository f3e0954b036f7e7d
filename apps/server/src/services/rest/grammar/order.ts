// The grammar of `order`: `column[->path][.asc|.desc][.nullsfirst|.nullslast]`, by a related row, or by distance.
import type { OrderTerm } from '#src/query/items.ts'
import { readField } from './field.ts'
import type { Found } from './filter.ts'
import { Reader } from './reader.ts'

const beforeVector = /\.(?:l2|cosine|ip)\.$/
const longestMetric = '.cosine.'.length

/** Moves vectors to the values, since the shape holds no values. Returns the text with `[]` in their place. */
export function extractVectors(text: string, found: Found): string {
  let out = ''
  let taken = 0
  for (let open = text.indexOf('['); open >= 0; open = text.indexOf('[', open + 1)) {
    if (!beforeVector.test(text.slice(Math.max(0, open - longestMetric), open))) continue
    const close = text.indexOf(']', open)
    if (close < 0) break
    found.values.push(text.slice(open, close + 1))
    out += `${text.slice(taken, open)}[]`
    taken = close + 1
    open = close
  }
  return out + text.slice(taken)
}

const maxTerms = 100

const metricCall = /\.(l2|cosine|ip)\.\[\]/y
const direction = /\.(?:asc|desc)(?=[.,]|$)/y
const nullsPlace = /\.nulls(?:first|last)(?=,|$)/y

/** `text` comes from `extractVectors`; `slot` is the index of its first vector in the values. */
export function parseOrder(text: string, slot: number): OrderTerm[] {
  const reader = new Reader(text, 'order')
  const terms: OrderTerm[] = []
  let nextSlot = slot
  do {
    reader.skipSpace()
    const term = readTerm(reader, nextSlot)
    if (term.slot !== undefined) nextSlot++
    if (terms.push(term) > maxTerms) reader.fail(`an order has at most ${maxTerms} terms`)
    reader.skipSpace()
  } while (reader.take(','))
  if (!reader.isAtEnd) reader.fail('expecting ".asc", ".desc", ".nullsfirst", ".nullslast", "," or the end')
  return terms
}

function readTerm(reader: Reader, slot: number): OrderTerm {
  let field = readField(reader)
  let relation: string | undefined
  if (field.path.length === 0 && reader.take('(')) {
    relation = field.column
    field = readField(reader)
    reader.need(')')
  }
  const metric = reader.match(metricCall)?.split('.')[1] as OrderTerm['metric']
  const isDescending = reader.match(direction) === '.desc'
  const nulls = reader.match(nullsPlace)?.slice('.nulls'.length) as OrderTerm['nulls']
  return {
    field,
    ...(relation !== undefined && { relation }),
    ...(metric && { metric, slot }),
    isDescending,
    ...(nulls && { nulls }),
  }
}
