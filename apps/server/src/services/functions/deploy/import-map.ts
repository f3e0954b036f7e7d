// The import map of a function, from deno.json, deno.jsonc or import_map.json. Deno does not read these files itself:
// they can have settings that read other files or fetch from the network.
import { invalid, type SourceFiles } from './files.ts'

export interface ImportMap {
  imports?: Record<string, string>
  scopes?: Record<string, Record<string, string>>
}

const configNames = ['deno.json', 'deno.jsonc']
const mapNames = ['import_map.json', 'import_map.jsonc']
const maxEntries = 1000
const maxBytes = 256 * 1024

/** Undefined if the function has none. The addresses in the map are relative to the folder of the function. */
export function importMapOf(files: SourceFiles): ImportMap | undefined {
  const name = [...configNames, ...mapNames].find(each => files.has(each))
  if (name === undefined) return
  const content = parse(name, files.get(name)!)
  const other = content['importMap']
  if (other === undefined) return checked(name, content)
  const path = typeof other === 'string' ? other.replace(/^\.\//, '') : ''
  if (!files.has(path) || path.includes('/')) throw invalid(`${name}: "importMap" must name a file beside it`)
  return checked(path, parse(path, files.get(path)!))
}

function parse(name: string, bytes: Buffer): Record<string, unknown> {
  if (bytes.length > maxBytes) throw invalid(`${name} has more than ${maxBytes / 1024} KB`)
  let value: unknown
  try {
    value = JSON.parse(withoutComments(bytes.toString('utf8')))
  } catch (error) {
    throw invalid(`${name} is not valid JSON: ${(error as Error).message}`)
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value))
    throw invalid(`${name} must be a JSON object`)
  return value as Record<string, unknown>
}

/**
 * Without comments, and without commas before a closing bracket. In one pass: a regular expression would begin again at
 * each comment or string that has no end.
 */
export function withoutComments(text: string): string {
  const pieces: string[] = []
  /** Where the part begins that was not copied yet. */
  let kept = 0
  /** The piece that is a comma, if only white space follows it. */
  let comma = -1
  for (let at = 0; at < text.length; at++) {
    const char = text[at]!
    if (char === '/' && (text[at + 1] === '/' || text[at + 1] === '*')) {
      pieces.push(text.slice(kept, at))
      at = endOfComment(text, at)
      kept = at + 1
    } else if (char === ',') {
      comma = pieces.push(text.slice(kept, at), ',') - 1
      kept = at + 1
    } else if (!' \n\t\r'.includes(char)) {
      if (comma >= 0 && (char === '}' || char === ']')) pieces[comma] = ''
      comma = -1
      if (char === '"') at = endOfString(text, at)
    }
  }
  pieces.push(text.slice(kept))
  return pieces.join('')
}

/** The position of the closing quote, or of the last character. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '\\') at++
    else if (text[at] === '"') return at
  }
  return text.length - 1
}

function endOfComment(text: string, start: number): number {
  const isLine = text[start + 1] === '/'
  const end = text.indexOf(isLine ? '\n' : '*/', start + 2)
  return end < 0 ? text.length - 1 : isLine ? end - 1 : end + 1
}

function checked(name: string, content: Record<string, unknown>): ImportMap {
  const { imports, scopes } = content
  if (imports !== undefined) checkAddresses(`${name}: "imports"`, imports)
  if (scopes !== undefined) {
    if (!isObject(scopes)) throw invalid(`${name}: "scopes" must be an object`)
    for (const [scope, addresses] of Object.entries(scopes))
      checkAddresses(`${name}: the scope ${JSON.stringify(scope)}`, addresses)
  }
  return { ...(imports !== undefined && { imports }), ...(scopes !== undefined && { scopes }) } as ImportMap
}

function checkAddresses(where: string, addresses: unknown): void {
  if (!isObject(addresses) || Object.values(addresses).some(each => typeof each !== 'string'))
    throw invalid(`${where} must be an object of texts`)
  if (Object.keys(addresses).length > maxEntries)
    throw invalid(`${where} has more than ${maxEntries} entries`)
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  value !== null && typeof value === 'object' && !Array.isArray(value)
