import assert from 'node:assert/strict'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { exchangeClusters, finishExchange } from './cluster-exchange.ts'

function clusters() {
  const home = mkdtempSync(join(tmpdir(), 'plinth-exchange-'))
  const [clusterDir, made, kept] = ['postgres', 'made', 'kept'].map(name => join(home, name)) as [
    string,
    string,
    string,
  ]
  for (const [path, text] of [
    [clusterDir, 'old'],
    [made, 'new'],
  ] as const) {
    mkdirSync(path)
    writeFileSync(join(path, 'name'), text)
  }
  const place = { dataDir: home, home, clusterDir, socketDir: home, logFile: join(home, 'log') }
  const note = join(home, 'cluster-exchange.json')
  const nameIn = (path: string) => (existsSync(path) ? readFileSync(join(path, 'name'), 'utf8') : undefined)
  return { place, exchange: { made, kept }, note, nameIn }
}

test('cluster exchange: the other cluster takes the place, and the old one is kept', () => {
  const { place, exchange, note, nameIn } = clusters()
  exchangeClusters(place, exchange)
  assert.deepEqual([nameIn(place.clusterDir), nameIn(exchange.kept)], ['new', 'old'])
  assert.ok(!existsSync(note))
  finishExchange(place)
  assert.equal(nameIn(place.clusterDir), 'new')
  rmSync(place.home, { recursive: true })
})

test('cluster exchange: the next start ends one that was killed, and never finds no cluster', () => {
  for (const killedAfter of [0, 1, 2]) {
    const { place, exchange, note, nameIn } = clusters()
    writeFileSync(note, JSON.stringify(exchange))
    if (killedAfter > 0) renameSync(place.clusterDir, exchange.kept)
    if (killedAfter > 1) renameSync(exchange.made, place.clusterDir)
    finishExchange(place)
    assert.equal(nameIn(place.clusterDir), killedAfter === 0 ? 'old' : 'new')
    assert.equal(nameIn(exchange.kept), killedAfter === 0 ? undefined : 'old')
    assert.ok(!existsSync(note))
    rmSync(place.home, { recursive: true })
  }
})

test('cluster exchange: without space for the note, or with a note that was cut off, the cluster stays', {
  skip: process.platform !== 'linux' && 'needs a file without space',
}, () => {
  const { place, exchange, note, nameIn } = clusters()
  symlinkSync('/dev/full', note)
  assert.throws(() => exchangeClusters(place, exchange), { code: 'ENOSPC' })
  assert.deepEqual([nameIn(place.clusterDir), nameIn(exchange.made)], ['old', 'new'])
  assert.ok(!existsSync(note))
  const text = JSON.stringify(exchange)
  for (const length of [0, text.length - 1]) {
    writeFileSync(note, text.slice(0, length))
    finishExchange(place)
    assert.equal(nameIn(place.clusterDir), 'old')
    assert.ok(!existsSync(note))
  }
  rmSync(place.home, { recursive: true })
})
