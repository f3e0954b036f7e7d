// A separate S3 service for a test. It runs in its own process, so that its output and memory do not affect the test.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { S3Settings } from '#src/kernel/objects/s3.ts'

export interface S3Server {
  settings: S3Settings
  /** Of another bucket, for a test with both files and backups. */
  backupBucket: string
  stop(): Promise<void>
}

const bucket = 'plinth'
const backupBucket = 'plinth-backups'

export async function startS3(): Promise<S3Server> {
  const directory = mkdtempSync(join(tmpdir(), 'plinth-s3-'))
  const child = fork(import.meta.filename, [directory], {
    // s3rver encrypts its page tokens with a cipher that needs the legacy provider of OpenSSL.
    execArgv: ['--no-warnings', '--openssl-legacy-provider'],
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  let stderr = ''
  child.stderr!.setEncoding('utf8').on('data', text => (stderr += text))
  const ended = once(child, 'close')
  const [port] = (await Promise.race([
    once(child, 'message'),
    ended.then(() => Promise.reject(new Error(`the S3 server did not start: ${stderr}`))),
  ])) as [number]
  return {
    settings: {
      endpoint: `http://127.0.0.1:${port}`,
      bucket,
      accessKeyId: 'S3RVER',
      secretAccessKey: 'S3RVER',
      region: 'us-east-1',
      forcePathStyle: true,
    },
    backupBucket,
    async stop() {
      child.kill('SIGKILL')
      await ended
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

async function serve(directory: string): Promise<void> {
  const { default: S3rver } = await import('s3rver')
  const server = new S3rver({
    address: '127.0.0.1',
    port: 0,
    silent: true,
    directory,
    configureBuckets: [bucket, backupBucket].map(name => ({ name, configs: [] })),
  })
  waitForFiles((server as unknown as { store: Store }).store)
  const { port } = (await server.run()) as AddressInfo
  process.once('disconnect', () => process.exit())
  process.send!(port)
}

interface Store {
  putObject(object: { bucket: string; key: string }): Promise<{ size: number }>
  getResourcePath(bucket: string, key: string, resource: string): string
}

/** s3rver answers a PUT before the file is completely written, so the next read could be too short. */
function waitForFiles(store: Store): void {
  const putObject = store.putObject.bind(store)
  store.putObject = async object => {
    const put = await putObject(object)
    const file = store.getResourcePath(object.bucket, object.key, 'object')
    while (statSync(file).size < put.size) await sleep(1)
    return put
  }
}

if (process.send && process.argv[1] === import.meta.filename) await serve(process.argv[2]!)
