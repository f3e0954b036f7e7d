// Finds what a function imports, without running it and without the network: `deno info` parses the files and resolves
// the specifiers with the import map.
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { OsUser } from '#src/kernel/child-processes/process.ts'
import { readJson } from '#src/kernel/http/json-body.ts'
import { inSlices, type Sliced } from '#src/kernel/slices.ts'
import { DenoStopped, runDeno } from './deno-command.ts'
import { invalid } from './files.ts'
import { aliasPrefix, maxPackages, type PackageNames } from './package-names.ts'

export interface Replacement {
  /** Relative to the folder of the function. */
  path: string
  line: number
  character: number
  specifier: string
  with: string
}

export interface Analysis {
  /** URLs of the function's own modules. */
  modules: string[]
  /** Specifiers that only the import map or the platform can resolve. */
  replacements: Replacement[]
}

export interface AnalysisInput {
  deno: string
  user: OsUser | undefined
  /** The directory of the deployment, in which `build` has the files. */
  directory: string
  entrypoint: string
  /** The path of the import map. */
  importMap: string
  /** Collects the packages that the code imports. */
  packages: PackageNames
  signal: AbortSignal
  timeoutMs: number
}

interface Position {
  line: number
  character: number
}
interface Resolved {
  specifier?: string
  error?: string
  span: { start: Position; end: Position }
}
interface Dependency {
  specifier: string
  code?: Resolved
  type?: Resolved
  assertionType?: string
}
interface Module {
  specifier: string
  kind?: string
  error?: string
  dependencies?: Dependency[]
}

const limits = { maxOutputBytes: 4 * 1024 * 1024 }
/** As many values as fit into the output. */
const jsonLimits = { anyKey: true, maxValues: 1_000_000, allowsLoneSurrogates: true }
const importsPerSlice = 100
/** The file that replaces `https://deno.land/std@…/http/server.ts`, and the one for imports of types only. */
export const builtins = {
  'plinth-std-http.js': 'export const serve = (handler, options) => Deno.serve(options ?? {}, handler)\n',
  'plinth-empty.js': 'export {}\n',
} as const

export async function analyse(input: AnalysisInput): Promise<Analysis> {
  const { directory, entrypoint, importMap } = input
  const root = pathToFileURL(`${join(directory, 'build')}/`).href
  const args = ['info', '--json', '--no-remote', '--no-npm', '--no-lock', '--no-config']
  const { isSuccess, stdout, stderr } = await runDeno({
    program: input.deno,
    args: [...args, `--import-map=${importMap}`, join(directory, 'build', entrypoint)],
    directory,
    user: input.user,
    env: { DENO_NO_PACKAGE_JSON: '1' },
    signal: input.signal,
    timeoutMs: Math.max(1, input.timeoutMs),
    ...limits,
  }).catch(error => {
    if (error instanceof DenoStopped)
      throw invalid('The code could not be examined in time; it has too many files or imports')
    throw error
  })
  if (!isSuccess) throw invalid(`The code could not be examined: ${shortened(stderr, root)}`)
  const { modules } = (await readJson(Buffer.from(stdout), jsonLimits)) as { modules: Module[] }
  const own = modules.filter(({ specifier }) => specifier.startsWith(root))
  const broken = own.find(({ error }) => error !== undefined)
  if (broken) throw invalid(sentenceOf(broken.error!, root))
  return inSlices(noteAll(own, input.packages, root))
}

function* noteAll(own: readonly Module[], packages: PackageNames, root: string): Sliced<Analysis> {
  const found: Analysis = {
    modules: own.filter(({ kind }) => kind === 'esm').map(({ specifier }) => specifier),
    replacements: [],
  }
  let count = 0
  for (const module of own)
    for (const dependency of module.dependencies ?? []) {
      note(found, packages, root, module, dependency)
      if (packages.wanted.size > maxPackages)
        throw invalid(`A function imports at most ${maxPackages} npm packages`)
      if (++count % importsPerSlice === 0) yield
    }
  return found
}

function note(
  found: Analysis,
  packages: PackageNames,
  root: string,
  module: Module,
  { specifier, code, type }: Dependency,
): void {
  // An import of types only is not executed.
  if (!code) return void type
  const path = pathIn(root, module.specifier)
  const { line, character } = code.span.start
  const where = `${path}:${line + 1}:${character + 1}`
  const refuse = (why: string) => invalid(`${where}: ${why}`)
  const replaceBy = (text: string) =>
    void found.replacements.push({ path, line, character, specifier, with: text })
  if (code.error !== undefined) throw refuse(firstLine(code.error, root))
  const resolved = code.specifier ?? ''
  const named = (npm: string) => {
    const text = packages.specifierFor(npm)
    if (text === undefined) throw refuse(`${JSON.stringify(specifier)} does not name an npm package`)
    return text
  }
  if (specifier.startsWith(aliasPrefix)) return
  if (resolved.startsWith('npm:')) {
    const text = named(resolved)
    if (text !== specifier) replaceBy(text)
  } else if (resolved.startsWith(root)) {
    if (!/^\.{1,2}\//.test(specifier)) replaceBy(relativeTo(module.specifier, resolved))
  } else if (resolved.startsWith('file:')) {
    throw refuse(`${JSON.stringify(specifier)} is outside of the folder of the function`)
  } else if (/^https?:|^jsr:/.test(resolved)) {
    const replacement = knownRemote(resolved)
    if (replacement === undefined)
      throw refuse(
        `${JSON.stringify(specifier)} cannot be imported: import packages with npm:, or add the file to the function`,
      )
    replaceBy(
      replacement.startsWith('npm:')
        ? named(replacement)
        : relativeTo(module.specifier, `${root}${replacement}`),
    )
  }
}

/** What the functions of a usual project import from elsewhere, and that the platform can give in another way. */
function knownRemote(url: string): string | undefined {
  if (/^https:\/\/deno\.land\/std(?:@[^/]+)?\/http\/server\.ts$/.test(url)) return 'plinth-std-http.js'
  if (/\.d\.ts$/.test(url)) return 'plinth-empty.js'
  const fromEsm = /^https:\/\/esm\.sh\/((?:@[\w.-]+\/)?[\w.-]+(?:@[\w.^~-]+)?(?:\/[\w./-]+)?)$/.exec(url)
  return fromEsm ? `npm:${fromEsm[1]}` : undefined
}

function relativeTo(from: string, to: string): string {
  const [fromParts, toParts] = [from, to].map(url => url.split('/'))
  let same = 0
  while (same < fromParts!.length - 1 && fromParts![same] === toParts![same]) same++
  const up = '../'.repeat(fromParts!.length - 1 - same)
  return `${up || './'}${toParts!.slice(same).join('/')}`
}

const pathIn = (root: string, specifier: string): string =>
  specifier.startsWith(root) ? fileURLToPath(specifier).slice(fileURLToPath(root).length) : specifier

/** `index.ts:3:5: Expression expected` */
function sentenceOf(error: string, root: string): string {
  const [, at] = /at (\S+:\d+:\d+)\s*$/m.exec(error) ?? []
  const what = firstLine(error.replace(/^SyntaxError: /, ''), root)
  return at?.startsWith(root) ? `${at.slice(root.length)}: ${what}` : what
}

const firstLine = (text: string, root: string) => shortened(text.split('\n', 1)[0]!, root)
const shortened = (text: string, root: string) =>
  text.replaceAll(root, '').replaceAll(fileURLToPath(root), '').trim().slice(0, 500)
