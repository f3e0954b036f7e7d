// Turns the files of a deployment into what runs: `src` has the files as they were sent, `build` the same files with
// specifiers that need no import map. Nothing is visible to anyone before the deployment is recorded.
import { randomUUID } from 'node:crypto'
import { chmod, link, mkdir, readFile, rm, unlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { createLimiter } from '#src/kernel/limiter.ts'
import { inSlices, type Sliced } from '#src/kernel/slices.ts'
import type { Archives } from '../archives.ts'
import { directoryName, makeOwnDir, type Place } from '../place.ts'
import type { VersionParts } from '../store.ts'
import { type Analysis, type AnalysisInput, analyse, builtins, type Replacement } from './analysis.ts'
import { hashOf, invalid, type Source } from './files.ts'
import { importMapOf } from './import-map.ts'
import { checkLinks } from './link-check.ts'
import { PackageNames } from './package-names.ts'
import { installPackages, type Registry } from './packages.ts'

export interface BuildDeps {
  place: Place
  archives: Archives
  registry: Registry
  /** Aborts when the platform stops. */
  signal: AbortSignal
}

/** Deno names each specifier of a file once, so one that is written several times takes several rounds. */
const maxRounds = 20
const analysisMs = 30_000
const replacementsPerSlice = 100
const linesPerSlice = 10_000
/** How much further than Deno says a specifier may be. */
const maxShift = 4096
/** Programs that use the CPU, and those that wait for the registry, which may be slow. */
const cpu = createLimiter({ concurrency: 2 })
const network = createLimiter({ concurrency: 8 })

export async function buildVersion(
  deps: BuildDeps,
  projectId: string,
  source: Source,
): Promise<VersionParts> {
  const { place, archives, signal } = deps
  const user = place.userOf(projectId)
  const deno = await place.deno()
  const directory = join(place.stagingDir, directoryName())
  await makeOwnDir(directory, user)
  try {
    const code = join(directory, 'code')
    await writeFiles(code, source)
    const { entrypoint } = source
    const packageNames = new PackageNames()
    const { modules } = await cpu(projectId, () =>
      analyseUntilResolved(
        { deno, user, directory: code, entrypoint, packages: packageNames, signal },
        source,
      ),
    )
    const wanted = Object.fromEntries(packageNames.wanted)
    const packages =
      packageNames.wanted.size === 0
        ? undefined
        : await network(projectId, () =>
            installPackages({ deno, user, directory, wanted, registry: deps.registry, signal }),
          )
    await cpu(projectId, () =>
      checkLinks({ deno, user, directory, modules, packages: packages?.directory, signal }),
    )
    const packagesArchive = packages
      ? await archives.save(projectId, packages.hash, packages.directory)
      : null
    const hash = await hashOf(source, [packagesArchive ?? ''])
    return {
      entrypoint,
      code_archive: await archives.save(projectId, hash, code),
      packages_archive: packagesArchive,
      packages: packages?.names ?? [],
      uses_node: packages !== undefined || mentionsNode(source),
    }
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

const mentionsNode = ({ files }: Source) =>
  [...files.values()].some(
    bytes => bytes.includes('process') || bytes.includes('node:') || bytes.includes('require'),
  )

/** The files of `build` are links to those of `src`, so an archive has their bytes once. */
async function writeFiles(code: string, { files }: Source): Promise<void> {
  await mkdir(code)
  const made = new Set<string>()
  for (const [path, bytes] of files) {
    const [src, build] = ['src', 'build'].map(part => join(code, part, path)) as [string, string]
    for (const folder of [dirname(src), dirname(build)])
      if (!made.has(folder)) {
        await mkdir(folder, { recursive: true })
        made.add(folder)
      }
    await writeFile(src, bytes, { mode: 0o644 })
    await link(src, build)
  }
  await chmod(code, 0o755)
}

/** Replaces specifiers until none is left that only the import map can resolve. */
async function analyseUntilResolved(
  input: Omit<AnalysisInput, 'importMap' | 'timeoutMs'>,
  { files }: Source,
): Promise<Analysis> {
  const { imports, scopes } = importMapOf(files) ?? {}
  // Beside the files, because its addresses are relative to it.
  const importMap = join(input.directory, 'build', `plinth-import-map-${randomUUID()}.json`)
  try {
    const until = performance.now() + analysisMs
    for (let round = 0; round < maxRounds; round++) {
      const map = { imports: { ...imports, ...input.packages.imports() }, ...(scopes && { scopes }) }
      await writeFile(importMap, JSON.stringify(map))
      const analysis = await analyse({ ...input, importMap, timeoutMs: until - performance.now() })
      if (analysis.replacements.length === 0) return analysis
      await applyReplacements(input.directory, analysis.replacements)
    }
    throw invalid(`A file has an import that is repeated more than ${maxRounds} times`)
  } finally {
    await rm(importMap, { force: true })
  }
}

async function applyReplacements(code: string, replacements: readonly Replacement[]): Promise<void> {
  const build = join(code, 'build')
  for (const [path, own] of Map.groupBy(replacements, each => each.path)) {
    const file = join(build, path)
    const text = await inSlices(replaceIn(await readFile(file, 'utf8'), own))
    // Another file: the one in `src` stays as it is.
    await unlink(file)
    await writeFile(file, text, { mode: 0o644 })
  }
  for (const [name, text] of Object.entries(builtins))
    if (replacements.some(each => each.with.endsWith(name)))
      await writeFile(join(build, name), text, { mode: 0o644 })
}

function* replaceIn(text: string, replacements: readonly Replacement[]): Sliced<string> {
  const starts = [0]
  const lastLine = Math.max(...replacements.map(({ line }) => line))
  for (let at = text.indexOf('\n'); at >= 0 && starts.length <= lastLine; at = text.indexOf('\n', at + 1)) {
    starts.push(at + 1)
    if (starts.length % linesPerSlice === 0) yield
  }
  const placed = replacements
    .map(each => ({ each, at: (starts[each.line] ?? text.length) + each.character }))
    .sort((a, b) => a.at - b.at)
  const pieces: string[] = []
  let copied = 0
  for (const [index, { each, at }] of placed.entries()) {
    const found = findSpecifier(text, Math.max(at, copied), each.specifier)
    if (!found)
      throw invalid(`${each.path}:${each.line + 1}: write the import of ${each.specifier} as a plain text`)
    pieces.push(text.slice(copied, found.from), JSON.stringify(each.with))
    copied = found.to
    if (index % replacementsPerSlice === 0) yield
  }
  pieces.push(text.slice(copied))
  return pieces.join('')
}

/** The position of Deno counts characters and not UTF-16 units, so the specifier may be a little further. */
function findSpecifier(
  text: string,
  at: number,
  specifier: string,
): { from: number; to: number } | undefined {
  const rest = text.slice(at, at + specifier.length + maxShift).split('\n', 1)[0]!
  for (const quote of ['"', "'", '`']) {
    const offset = rest.indexOf(quote + specifier + quote)
    if (offset >= 0) return { from: at + offset, to: at + offset + specifier.length + 2 }
  }
  return
}
