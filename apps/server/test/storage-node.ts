// A platform in its own process with its own data directory, which tests can kill during uploads and downloads.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import fs from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { guardedSettings, withClient } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { controlSettings } from '#src/tenancy/cluster.ts'
import { beforeOf, restoredOf, verifyOf } from '#src/tenancy/provision.ts'
import { serverOptions } from '../../cli/src/server-process.ts'
import { eventually } from './eventually.ts'
import { call, type Reply, testServer } from './harness.ts'

export interface StartOptions {
  settings?: Record<string, string>
  /** Maximum file size, which simulates a full disk. */
  fileSizeLimit?: number
}

export class StorageNode {
  url = ''
  readonly dataDir = fs.mkdtempSync(join(tmpdir(), 'plinth-storage-'))
  readonly control = `t_storage_${randomBytes(5).toString('hex')}`
  readonly #token = randomBytes(24).toString('hex')
  readonly #secret = randomBytes(24).toString('hex')
  #child: ChildProcess | undefined

  async start({ settings = {}, fileSizeLimit }: StartOptions = {}): Promise<void> {
    const { user, password, host, port } = testServer()
    const main = fileURLToPath(new URL('../src/main.ts', import.meta.url))
    const command = [process.execPath, ...serverOptions, main]
    // ulimit counts blocks of 512 bytes. Node.js ignores SIGXFSZ and gets EFBIG.
    const limited = ['sh', '-c', `ulimit -f ${Math.floor((fileSizeLimit ?? 0) / 512)}; exec "$0" "$@"`]
    const [program = '', ...given] = fileSizeLimit === undefined ? command : [...limited, ...command]
    const child = spawn(program, given, {
      cwd: this.dataDir,
      env: {
        PATH: process.env['PATH'],
        TMPDIR: tmpdir(),
        NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
        PLATFORM_PORT: '0',
        PLATFORM_DISK_RESERVE_MB: '0',
        PLATFORM_DATA_DIR: this.dataDir,
        PLATFORM_ADMIN_TOKEN: this.#token,
        PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0',
        CONTROL_PLANE_SECRET: this.#secret,
        DATABASE_URL: `postgres://${user}:${password}@${encodeURIComponent(host)}:${port}/${this.control}`,
        ...settings,
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.#child = child
    let output = ''
    await new Promise<void>(resolve => {
      child.once('exit', () => resolve())
      child.stderr!.setEncoding('utf8').on('data', text => {
        output += text
        if (/running at \S+\n/.test(output)) resolve()
      })
    })
    this.url = /running at (\S+)/.exec(output)?.[1] ?? assert.fail(`the platform did not start: ${output}`)
  }

  /** Resident memory of the process. */
  residentBytes(): number {
    const status = fs.readFileSync(`/proc/${this.#child!.pid}/status`, 'utf8')
    return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)![1]) * 1024
  }

  /** CPU time of the process. */
  cpuMs(): number {
    const stat = fs.readFileSync(`/proc/${this.#child!.pid}/stat`, 'utf8')
    const [user, system] = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 13)
    // In ticks of 10 ms.
    return (Number(user) + Number(system)) * 10
  }

  /** Pieces that the platform has open. */
  openPieces(): number {
    const folder = `/proc/${this.#child!.pid}/fd`
    const targets = fs.readdirSync(folder).map(fd => {
      try {
        return fs.readlinkSync(join(folder, fd))
      } catch {
        return ''
      }
    })
    return targets.filter(target => target.startsWith(join(this.dataDir, 'objects'))).length
  }

  async kill(): Promise<void> {
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }

  manage(method: string, path: string, body?: unknown): Promise<Reply> {
    return call(`${this.url}/api/v1${path}`, method, { token: this.#token, body })
  }

  async createProject(quotas: Record<string, number> = {}): Promise<StoredFiles> {
    const { status, body } = await this.manage('POST', '/projects', { name: 'files', quotas })
    assert.equal(status, 201, JSON.stringify(body))
    return new StoredFiles(this, body)
  }

  /** Kills it and starts it again after its leases have expired. */
  async restart(options?: StartOptions): Promise<void> {
    await this.kill()
    await this.inControl(`update storage_uploads set held_until = '-infinity'`)
    await this.start(options)
  }

  /** Kills it and starts it two days later, when all uploads have expired. */
  async restartLater(): Promise<void> {
    await this.kill()
    await this.inControl(`
      update storage_uploads set held_until = '-infinity', expires_at = expires_at - interval '2 days';
      update stored_files set until = until - interval '2 days';
      update storage_areas set sweep_at = now(), compared_at = compared_at - interval '2 days'`)
    await this.start()
  }

  /** Kills it between publishing the object and marking the upload finished. For uploads with one PATCH. */
  async restartUnnoted(): Promise<void> {
    await this.kill()
    await this.inControl(`update storage_uploads set is_finished = false`)
    await this.start()
  }

  /** Kills it while a request waits for a lock on a table of the control database. */
  async restartWaiting(table: string, ask: () => Promise<unknown>): Promise<void> {
    await withClient(testServer(), this.control, controlSettings, async session => {
      await session.script(`begin; lock table ${table} in exclusive mode`)
      const reply = ask().catch(() => {})
      const waiting = () =>
        session.rows(
          sql`select 1 from pg_catalog.pg_locks where not granted and relation = ${table}::pg_catalog.regclass`,
        )
      await eventually(async () => (await waiting()).length > 0, 'the request waits for the lock')
      await this.kill()
      await reply
    })
    await this.start()
  }

  /** Runs statements in the control database. */
  inControl(script: string): Promise<void> {
    return withClient(testServer(), this.control, controlSettings, async session => {
      await session.script(script)
    })
  }

  /** Stops it and drops its databases and files. */
  async remove(): Promise<void> {
    await this.kill()
    fs.rmSync(this.dataDir, { recursive: true, force: true })
    const control = this.control
    const address = testServer()
    const refs = await withClient(address, control, controlSettings, session =>
      session.rows<{ ref: string }>(sql`select ref from projects`),
    )
    await withClient(address, 'postgres', guardedSettings, async session => {
      await session.script(`alter database ${control}_template is_template false`)
      const copies = refs.flatMap(({ ref }) => [ref, verifyOf(ref), restoredOf(ref), beforeOf(ref)])
      for (const name of [...copies, `${control}_template`, control])
        await session.script(`drop database if exists ${name} with (force)`)
      for (const { ref } of refs)
        await session.script(`drop role if exists ${ref}_owner, ${ref}_api, ${ref}_svc, ${ref}_auth`)
    })
  }
}

/** The files of one project, as service_role. */
export class StoredFiles {
  readonly project: CreatedProject
  readonly #node: StorageNode
  constructor(node: StorageNode, project: CreatedProject) {
    this.#node = node
    this.project = project
  }

  get base(): string {
    return `${this.#node.url}/v1/storage/${this.project.id}`
  }
  get headers(): Record<string, string> {
    return { apikey: this.project.service_role_key }
  }
  /** The directory of its pieces. */
  get folder(): string {
    return join(this.#node.dataDir, 'objects', this.project.id)
  }

  fetch(method: string, path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { ...this.headers, ...(init.headers as Record<string, string>) }
    return fetch(`${this.base}/${path}`, { ...init, method, headers })
  }

  async put(path: string, body: Buffer): Promise<void> {
    const reply = await this.fetch('PUT', `object/files/${path}`, { body: new Uint8Array(body) })
    assert.equal(reply.status, 200, await reply.text())
  }

  async get(path: string): Promise<Buffer> {
    const reply = await this.fetch('GET', `object/files/${path}`)
    assert.equal(reply.status, 200, path)
    return Buffer.from(await reply.arrayBuffer())
  }

  async statusOf(path: string): Promise<number> {
    return (await this.fetch('HEAD', `object/files/${path}`)).status
  }

  async names(): Promise<string[]> {
    const reply = await this.fetch('POST', 'object/list-v2/files', {
      body: '{}',
      headers: { 'content-type': 'application/json' },
    })
    const { objects } = (await reply.json()) as { objects: { name: string }[] }
    return objects.map(({ name }) => name)
  }

  /** Bytes that count against the quota. */
  async usedBytes(): Promise<number> {
    const { status, body } = await this.#node.manage('GET', `/projects/${this.project.id}`)
    assert.equal(status, 200)
    return body.storage_bytes
  }

  /** Bytes of its pieces on disk. */
  bytesOnDisk(): number {
    return this.pieces().reduce(
      (sum, name) => sum + (fs.statSync(name, { throwIfNoEntry: false })?.size ?? 0),
      0,
    )
  }

  pieces(): string[] {
    return filesIn(this.folder)
  }

  /** A request whose body the test writes: its socket and the answer so far. */
  async opened(method: string, path: string, headers: Record<string, string | number>): Promise<Opened> {
    const { hostname, port } = new URL(this.base)
    const socket = connect(Number(port), hostname)
    const request = { socket, answer: '', isClosed: false }
    socket.setEncoding('latin1').on('data', text => {
      request.answer += text
    })
    socket
      .on('error', () => {})
      .on('close', () => {
        request.isClosed = true
      })
    await once(socket, 'connect')
    const lines = Object.entries({ host: hostname, ...this.headers, ...headers })
    const target = path.startsWith('/') ? path : `${new URL(this.base).pathname}/${path}`
    socket.write(`${method} ${target} HTTP/1.1\r\n`)
    socket.write(`${lines.map(([name, value]) => `${name}: ${value}`).join('\r\n')}\r\n\r\n`)
    return request
  }
}

export interface Opened {
  socket: Socket
  answer: string
  isClosed: boolean
}

export const answeredStatus = ({ answer }: Opened): number => Number(answer.split(' ')[1])

/** Ignores folders that are removed while it reads. */
function filesIn(folder: string): string[] {
  try {
    return fs
      .readdirSync(folder, { withFileTypes: true })
      .flatMap(each => (each.isDirectory() ? filesIn(join(folder, each.name)) : [join(folder, each.name)]))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return []
  }
}
