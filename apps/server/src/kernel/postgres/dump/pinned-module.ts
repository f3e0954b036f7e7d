// pg_dump 18 as WebAssembly, from the package that npm has installed. The package runs it only against its own in-process
// database, so a copy of its code with one more export is made in the data directory.
import { hash } from 'node:crypto'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const packageName = '@electric-sql/pglite-tools'
const pinnedVersion = '0.4.8'
const code = {
  file: 'chunk-RKAX3U4S.js',
  sha256: 'b043b34525f2c1f893801e7b8f76921b34bafbf818fd7cc6c99fa21e9a015e5b',
}
const binary = {
  file: 'pg_dump.wasm',
  sha256: 'cdbc551ec339cc9867003203bc8f03911858be2be92b3e88376922b09ccdf58c',
}
const exports = { original: 'export{te as a}', extended: 'export{te as a,L as factory}' }

export interface PinnedModule {
  /** The file of the code, which exports `factory`. */
  codeFile: string
  program: Program
}

/** Compiled WebAssembly. The types of Node do not have it. */
export type Program = object
declare const WebAssembly: { compile(binary: Uint8Array): Promise<Program> }
/** Threads share it, and with it the code that was optimised while it ran. Optimising it again takes most of a dump's time. */
let compiled: Promise<Program> | undefined

/** The package does not export these files. They are beside its entry module. */
const packageDirectory = () => dirname(fileURLToPath(import.meta.resolve(packageName)))

/** Checks both files and makes the copy unless it exists. */
export async function preparePinnedModule(
  dataDir: string,
  installed = packageDirectory(),
): Promise<PinnedModule> {
  const [source, bytes] = await Promise.all([readPinned(installed, code), readPinned(installed, binary)])
  const text = source.toString('utf8').replace(exports.original, exports.extended)
  const directory = join(dataDir, 'pg-dump')
  const codeFile = join(directory, `${pinnedVersion}.mjs`)
  if ((await contentOf(codeFile)) !== text) {
    await mkdir(directory, { recursive: true, mode: 0o700 })
    await replaceFile(codeFile, text)
  }
  compiled ??= WebAssembly.compile(bytes)
  return { codeFile, program: await compiled }
}

async function readPinned(
  directory: string,
  { file, sha256 }: { file: string; sha256: string },
): Promise<Buffer> {
  const advice = `Install the dependencies again with npm ci, which installs version ${pinnedVersion}.`
  let content: Buffer
  try {
    content = await readFile(join(directory, file))
  } catch (cause) {
    throw new Error(`${packageName} is not installed completely: ${file} cannot be read. ${advice}`, {
      cause,
    })
  }
  if (hash('sha256', content) !== sha256)
    throw new Error(`${file} of ${packageName} is not the expected file. ${advice}`)
  return content
}

/** Undefined if there is no such file. */
async function contentOf(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw error
  }
}

let drafts = 0

/** Another process that replaces it at the same time writes the same content. */
async function replaceFile(file: string, text: string): Promise<void> {
  const draft = `${file}.${process.pid}.${++drafts}.tmp`
  try {
    await writeFile(draft, text, { mode: 0o600 })
    await rename(draft, file)
  } finally {
    await rm(draft, { force: true })
  }
}
