// Turns the files of a deployment into what runs: `src` has the files as they were sent, `build` the same files with
// specifiers that need no import map. Nothing is visible to anyone before the deployment is recorded.
import { randomUUID } from 'node:crypto'
import { chmod, link, mkdir, readFile, rm, unlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Archives } from '../archives.ts'
import { directoryName, makeOwnDir, type Place } from '../place.ts'
import type { VersionParts } from '../store.ts'
import { type Analysis, analyse, builtins, type Replacement } from './analysis.ts'
import { hashOf, invalid, type Source } from './files.ts'
import { importMapOf } from './import-map.ts'
import { checkLinks } from './link-check.ts'
import { installPackages, type Registry } from './packages.ts'

export interface BuildDeps {
  place: Place
  archives: Archives
  registry: Registry
}

/** Deno names each specifier of a file once, so one that is written several times takes several rounds. */
const maxRounds = 20

export async function buildVersion(
  deps: BuildDeps,
  projectId: string,
  source: Source,
): Promise<VersionParts> {
  const { place, archives } = deps
  const user = place.userOf(projectId)
  const deno = await place.deno()
  const directory = join(place.stagingDir, directoryName())
  await makeOwnDir(directory, user)
  try {
    const code = join(directory, 'code')
    await writeFiles(code, source)
    const importMap = await writeImportMap(directory, source)
    const { entrypoint } = source
    const input = { deno, user, directory: code, entrypoint, importMap }
    let analysis: Analysis | undefined
    for (let round = 0; analysis === undefined || analysis.replacements.length > 0; round++) {
      if (round === maxRounds)
        throw invalid(`A file has an import that is repeated more than ${maxRounds} times`)
      if (analysis) await applyReplacements(code, analysis.replacements)
      analysis = await analyse(input)
    }
    if (importMap !== undefined) await rm(importMap)
    const packages =
      analysis.packages.length === 0
        ? undefined
        : await installPackages({ deno, user, directory, wanted: analysis.packages, registry: deps.registry })
    await checkLinks({ deno, user, directory, modules: analysis.modules, packages: packages?.directory })
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

async function writeImportMap(directory: string, source: Source): Promise<string | undefined> {
  const map = importMapOf(source.files)
  if (!map) return
  const path = join(directory, 'code', 'build', `plinth-import-map-${randomUUID()}.json`)
  await writeFile(path, JSON.stringify(map))
  return path
}

async function applyReplacements(code: string, replacements: readonly Replacement[]): Promise<void> {
  const build = join(code, 'build')
  for (const [path, own] of Map.groupBy(replacements, each => each.path)) {
    const file = join(build, path)
    const text = replaceIn(await readFile(file, 'utf8'), own)
    // Another file: the one in `src` stays as it is.
    await unlink(file)
    await writeFile(file, text, { mode: 0o644 })
  }
  for (const [name, text] of Object.entries(builtins))
    if (replacements.some(each => each.with.endsWith(name)))
      await writeFile(join(build, name), text, { mode: 0o644 })
}

/** From the end to the start, so that the positions stay valid. */
function replaceIn(text: string, replacements: readonly Replacement[]): string {
  const starts = [0]
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) starts.push(at + 1)
  const placed = replacements
    .map(each => ({ each, at: (starts[each.line] ?? text.length) + each.character }))
    .sort((a, b) => b.at - a.at)
  let result = text
  for (const { each, at } of placed) {
    const found = findSpecifier(result, at, each.specifier)
    if (!found)
      throw invalid(`${each.path}:${each.line + 1}: write the import of ${each.specifier} as a plain text`)
    result = `${result.slice(0, found.from)}${JSON.stringify(each.with)}${result.slice(found.to)}`
  }
  return result
}

/** The position of Deno counts characters and not UTF-16 units, so the specifier may be a little further. */
function findSpecifier(
  text: string,
  at: number,
  specifier: string,
): { from: number; to: number } | undefined {
  const end = text.indexOf('\n', at)
  const rest = text.slice(at, end < 0 ? undefined : end)
  for (const quote of ['"', "'", '`']) {
    const offset = rest.indexOf(quote + specifier + quote)
    if (offset >= 0) return { from: at + offset, to: at + offset + specifier.length + 2 }
  }
  return
}
