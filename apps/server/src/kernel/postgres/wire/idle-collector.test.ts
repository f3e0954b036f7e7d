// Each test runs in its own process, with flags that keep V8 from collecting by itself.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'

const idle = ['--no-memory-reducer', '--min-semi-space-size=64', '--input-type=module']

const tools = `
  import { setTimeout as sleep } from 'node:timers/promises'
  import { idleCollector } from '${new URL('idle-collector.ts', import.meta.url)}'

  const megabytes = 2 ** 20
  const held = () => process.memoryUsage().arrayBuffers / megabytes
  const make = () => Buffer.alloc(20 * megabytes, 1)
  async function until(holds) {
    for (const end = Date.now() + 30_000; !holds(); await sleep(100))
      if (Date.now() > end) throw new Error('it still holds ' + held() + ' MB')
  }
  const collectWhenIdle = idleCollector(100)
`

function run(scene: string): void {
  const { status, stderr } = spawnSync(process.execPath, [...idle, '-e', tools + scene], { encoding: 'utf8' })
  assert.equal(status, 0, stderr)
}

test('unreferenced memory is freed while the process is idle', () =>
  run(`
    make()
    collectWhenIdle()
    await until(() => held() < 8)
  `))

test('memory that is referenced at the first check is freed after it is released', () =>
  run(`
    let answer = make()
    make()
    collectWhenIdle()
    await until(() => held() < 30)
    if (answer.length !== 20 * megabytes) throw new Error('it is gone')
    answer = undefined
    await until(() => held() < 8)
  `))
