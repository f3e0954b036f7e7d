import assert from 'node:assert/strict'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { canReach, systemDir } from '#src/kernel/child-processes/os-user.ts'
import { type Binaries, usableBinaries } from './binaries.ts'
import { databaseUser } from './os-user.ts'

const root = mkdtempSync(join(tmpdir(), 'plinth-binaries-'))
chmodSync(root, 0o755)
const user = process.getuid?.() === 0 ? databaseUser(join(root, 'absent')) : undefined
const version = `test-${process.pid}`
const copiesDir = user ? systemDir : root
/** The directory of the system exists only after the first copy. */
const copies = () =>
  existsSync(copiesDir) ? readdirSync(copiesDir).filter(name => name.startsWith(`native-${version}`)) : []

after(() => {
  rmSync(root, { recursive: true, force: true })
  rmSync(join(systemDir, `native-${version}`), { recursive: true, force: true })
})

/** A directory like that of the npm package, without the symbolic link of its library. */
function packageIn(name: string): Binaries {
  const native = join(root, name, 'native')
  for (const dir of ['bin', 'lib', 'share/postgresql']) mkdirSync(join(native, dir), { recursive: true })
  for (const tool of ['postgres', 'initdb']) writeFileSync(join(native, 'bin', tool), tool, { mode: 0o755 })
  writeFileSync(join(native, 'lib/libpq.so.5.18'), 'library')
  writeFileSync(join(native, 'share/postgresql/postgres.bki'), 'catalogue', { mode: 0o600 })
  const links = [{ source: 'native/lib/libpq.so.5.18', target: 'native/lib/libpq.so.5' }]
  writeFileSync(join(native, 'pg-symlinks.json'), JSON.stringify(links))
  return { native, version }
}

const place = { home: root, ...(user && { user }) }

test('missing library links are created in the package', async () => {
  const packaged = packageIn('open')
  assert.equal(await usableBinaries(packaged, place), packaged.native)
  assert.equal(readFileSync(join(packaged.native, 'lib/libpq.so.5'), 'utf8'), 'library')
  assert.equal(await usableBinaries(packaged, place), packaged.native)
  assert.deepEqual(copies(), [])
})

test('a package that its user cannot run is copied once, completely and readable for that user', async () => {
  const packaged = packageIn('closed')
  // As root, the database user cannot reach the package. As an ordinary user, the links cannot be created.
  if (user) chmodSync(dirname(packaged.native), 0o700)
  else chmodSync(join(packaged.native, 'lib'), 0o555)
  const copy = await usableBinaries(packaged, place)
  assert.equal(copy, join(copiesDir, `native-${version}`))
  assert.ok(lstatSync(join(copy, 'lib/libpq.so.5')).isSymbolicLink())
  assert.equal(readFileSync(join(copy, 'lib/libpq.so.5'), 'utf8'), 'library')
  assert.equal(statSync(join(copy, 'bin/postgres')).mode & 0o777, 0o755)
  if (user) assert.ok(canReach(user, join(copy, 'share/postgresql/postgres.bki'), 0o4))
  assert.deepEqual(copies(), [`native-${version}`])

  writeFileSync(join(copy, 'marker'), '')
  assert.equal(await usableBinaries(packaged, place), copy)
  assert.ok(existsSync(join(copy, 'marker')), 'the second start uses the first copy')
  chmodSync(join(packaged.native, 'lib'), 0o755)
})
