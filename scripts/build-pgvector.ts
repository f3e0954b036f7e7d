// Compiles pgvector for the embedded Postgres, for the tests. The source and the headers of the server come from the Debian
// archive that apt uses on this machine, verified by apt. Nothing is installed, and root is not needed.
import { execFile } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { packagedBinaries } from '../apps/server/src/kernel/postgres/engine/binaries.ts'

const run = promisify(execFile)
const cache = join(import.meta.dirname, '../node_modules/.cache')
const { version } = packagedBinaries()
const headersPackage = `postgresql-server-dev-${version.split('.')[0]}`

/** The directory for PLATFORM_EXTENSION_DIR; built once for each version of the embedded Postgres. */
export async function builtPgvector(): Promise<string> {
  const built = join(cache, `pgvector-${version}`)
  if (existsSync(built)) return built
  mkdirSync(cache, { recursive: true })
  const work = mkdtempSync(join(cache, 'pgvector.building-'))
  try {
    const [source, headers] = await Promise.all([unpackSource(work), unpackHeaders(work)])
    renameSync(await install(source, await compile(source, headers), work), built)
    return built
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

async function unpackSource(work: string): Promise<string> {
  const directory = await fetchPackage(
    work,
    'deb-src',
    ['stable', 'testing', 'unstable'],
    ['source', '--download-only', 'pgvector'],
  )
  const [tarball] = globSync(join(directory, 'pgvector_*.orig.tar.*'))
  await run('tar', ['-xf', tarball!, '-C', directory, '--strip-components=1'])
  return directory
}

async function unpackHeaders(work: string): Promise<string> {
  const suites = ['testing', 'unstable', 'stable']
  const directory = await fetchPackage(work, 'deb', suites, ['download', headersPackage])
  const [archive] = globSync(join(directory, '*.deb'))
  await run('dpkg-deb', ['-x', archive!, directory])
  const [headers] = globSync(join(directory, 'usr/include/postgresql/*/server'))
  return headers!
}

/** Runs `apt-get <command>` in the first suite that has the package, and returns the directory with the files. */
async function fetchPackage(
  work: string,
  kind: string,
  suites: string[],
  command: string[],
): Promise<string> {
  const failures: string[] = []
  for (const archive of await listArchives())
    for (const suite of suites) {
      const directory = join(work, `${kind}-${suite}`)
      mkdirSync(join(directory, 'lists/partial'), { recursive: true })
      writeFileSync(join(directory, 'sources.list'), `${kind} ${archive} ${suite} main\n`)
      try {
        await aptGet(directory, ['update'])
        await aptGet(directory, command)
        return directory
      } catch (error) {
        failures.push(`${suite}: ${(error as { stderr?: string }).stderr?.trim() || error}`)
        rmSync(directory, { recursive: true, force: true })
      }
    }
  throw new Error(`apt-get ${command.join(' ')} failed in every suite:\n${failures.join('\n')}`)
}

/** The Debian archives that apt uses on this machine. */
async function listArchives(): Promise<Set<string>> {
  const list = ['indextargets', '--format', '$(REPO_URI)', 'Created-By: Packages', 'Label: Debian']
  const { stdout } = await run('apt-get', list).catch(explainApt)
  const found = stdout.split('\n').filter(Boolean)
  if (found.length === 0) throw new Error('apt has no Debian archive; run apt-get update first')
  return new Set(found)
}

function explainApt(error: NodeJS.ErrnoException): never {
  if (error.code === 'ENOENT')
    throw new Error(
      'pgvector is compiled from the Debian archive, which needs apt; or set TEST_EXTENSION_DIR',
    )
  throw error
}

/** Uses its own lists and cache, so that the packages of the machine do not change. */
async function aptGet(directory: string, command: string[]): Promise<void> {
  const options = {
    'Dir::Etc::SourceList': join(directory, 'sources.list'),
    'Dir::Etc::SourceParts': '-',
    'Dir::State::Lists': join(directory, 'lists'),
    'Dir::State::Status': '/dev/null',
    'Dir::Cache': join(directory, 'cache'),
    'APT::Sandbox::User': 'root',
    'Debug::NoLocking': '1',
    'Acquire::Languages': 'none',
    'Acquire::Retries': '2',
    'APT::Update::Error-Mode': 'any',
  }
  mkdirSync(join(directory, 'cache/archives/partial'), { recursive: true })
  const optionArgs = Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`])
  await run('apt-get', [...optionArgs, '-q', ...command], { cwd: directory })
}

async function compile(source: string, headers: string): Promise<string> {
  const flags = ['-O2', '-fPIC', '-ftree-vectorize', '-fassociative-math', '-fno-signed-zeros']
  const files = globSync(join(source, 'src/*.c'))
  await Promise.all(
    files.map(async file => {
      writeFileSync(file, patchForPostgres18(readFileSync(file, 'utf8')))
      const args = [...flags, '-fno-trapping-math', '-w', `-I${headers}`, '-c', file, '-o', `${file}.o`]
      await run('cc', args).catch(explainCompiler)
    }),
  )
  const library = join(source, 'vector.so')
  await run('cc', ['-shared', '-o', library, ...files.map(file => `${file}.o`), '-lm'])
  return library
}

/** pgvector 0.8.0, the version in stable, lacks two changes of 0.8.1 that Postgres 18 needs. */
function patchForPostgres18(code: string): string {
  return code
    .replaceAll('vacuum_delay_point()', 'vacuum_delay_point(false)')
    .replaceAll('buildstate->tupdesc->attrs[0].', 'TupleDescAttr(buildstate->tupdesc, 0)->')
}

function explainCompiler(error: NodeJS.ErrnoException): never {
  if (error.code === 'ENOENT') throw new Error('pgvector needs a C compiler: apt-get install gcc libc6-dev')
  throw error
}

/** Copies the files into the layout of PLATFORM_EXTENSION_DIR, readable by the user of Postgres. */
async function install(source: string, library: string, work: string): Promise<string> {
  const target = join(work, 'installed')
  const control = join(source, 'vector.control')
  const [, pgvectorVersion] = /^default_version = '(.+)'$/m.exec(readFileSync(control, 'utf8'))!
  // A project's owner is not a superuser and can create only trusted extensions.
  appendFileSync(control, 'trusted = true\n')
  const files = {
    [control]: 'extension/vector.control',
    [join(source, 'sql/vector.sql')]: `extension/vector--${pgvectorVersion}.sql`,
    [library]: `lib/${basename(library)}`,
  }
  for (const [from, to] of Object.entries(files)) {
    const file = join(target, to)
    mkdirSync(dirname(file), { recursive: true })
    copyFileSync(from, file)
    chmodSync(file, 0o644)
  }
  for (const directory of ['', 'extension', 'lib']) chmodSync(join(target, directory), 0o755)
  return target
}

if (import.meta.main) console.log(await builtPgvector())
