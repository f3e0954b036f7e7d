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
const maxBytes = 1024 * 1024

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
  if (bytes.length > maxBytes) throw invalid(`${name} has more than 1 MB`)
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

/** Strings are matched first, so that their content stays. A comma before a closing bracket is dropped. */
const jsonc = /("(?:[^"\\]|\\.)*")|\/\/[^\n]*|\/\*[\s\S]*?\*\/|,(?=\s*[}\]])/g
const withoutComments = (text: string) => text.replace(jsonc, (_, string?: string) => string ?? '')

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
