// Values as Postgres writes them, turned into JSON the way its own to_json would.
import type { TextResult } from '#src/kernel/postgres/database.ts'

type Kind = 'boolean' | 'number' | 'json' | 'timestamp' | 'text'

const kinds = new Map<number, Kind>([
  [16, 'boolean'],
  [20, 'number'],
  [21, 'number'],
  [23, 'number'],
  [26, 'number'],
  [700, 'number'],
  [701, 'number'],
  [1700, 'number'],
  [114, 'json'],
  [3802, 'json'],
  [1114, 'timestamp'],
  [1184, 'timestamp'],
])

/** Array types by the type of their elements. */
const elementTypes = new Map([
  [1000, 16],
  [1016, 20],
  [1005, 21],
  [1007, 23],
  [1028, 26],
  [1021, 700],
  [1022, 701],
  [1231, 1700],
  [199, 114],
  [3807, 3802],
  [1115, 1114],
  [1185, 1184],
  [1009, 25],
  [1015, 1043],
  [1002, 18],
  [1003, 19],
  [1182, 1082],
  [2951, 2950],
])

export function jsonRows({ columns, rows }: TextResult): string {
  const names = columns.map(({ name }) => JSON.stringify(name))
  const lines = rows.map(row => {
    const cells = row.map((cell, index) => `${names[index]}:${jsonValue(cell, columns[index]!.type)}`)
    return `{${cells.join(',')}}`
  })
  return `[${lines.join(',\n ')}]`
}

function jsonValue(text: string | null, type: number): string {
  if (text === null) return 'null'
  const element = elementTypes.get(type)
  if (element !== undefined) return arrayValue(text, element)
  switch (kinds.get(type)) {
    case 'boolean':
      return text === 't' ? 'true' : 'false'
    case 'number':
      return /^-?\d/.test(text) ? text : JSON.stringify(text)
    case 'json':
      return text
    case 'timestamp':
      return JSON.stringify(text.replace(' ', 'T').replace(/([+-]\d\d)$/, '$1:00'))
    default:
      return JSON.stringify(text)
  }
}

/** `{1,2}`, `{"a b",NULL}`, `{{1},{2}}`, with bounds in front when they are unusual. */
function arrayValue(text: string, element: number): string {
  let at = text.indexOf('{')
  function list(): string {
    const items: string[] = []
    at++
    while (at < text.length && text[at] !== '}') {
      items.push(text[at] === '{' ? list() : item())
      if (text[at] === ',') at++
    }
    at++
    return `[${items.join(',')}]`
  }
  function item(): string {
    if (text[at] !== '"') {
      const start = at
      while (at < text.length && text[at] !== ',' && text[at] !== '}') at++
      const bare = text.slice(start, at)
      return bare === 'NULL' ? 'null' : jsonValue(bare, element)
    }
    let value = ''
    for (at++; text[at] !== '"'; at++) value += text[at] === '\\' ? text[++at] : text[at]
    at++
    return jsonValue(value, element)
  }
  return list()
}
