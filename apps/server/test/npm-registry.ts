// An npm registry on this machine, with packages that the tests write.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { repository } from './platform-process.ts'

export interface Manifest {
  name: string
  version: string
  [field: string]: unknown
}

/** By path: a text, or a symbolic link. */
export type PackageFiles = Record<string, string | { link: string }>

export class Registry {
  readonly #folder = fs.mkdtempSync(join(tmpdir(), 'plinth-registry-'))
  readonly #packages = new Map<string, { manifest: Manifest; tarball: Buffer }[]>()
  #server: Server | undefined
  url = ''
  requests = 0

  add(manifest: Manifest, files: PackageFiles, tarOptions: string[] = []): void {
    const folder = fs.mkdtempSync(join(this.#folder, 'package-'))
    const all: PackageFiles = { 'package.json': JSON.stringify(manifest), ...files }
    for (const [path, content] of Object.entries(all)) {
      const file = join(folder, 'package', path)
      fs.mkdirSync(dirname(file), { recursive: true })
      if (typeof content === 'string') fs.writeFileSync(file, content)
      else fs.symlinkSync(content.link, file)
    }
    this.#pack(manifest, ['-C', folder, ...tarOptions, 'package'])
  }

  /** A package of this repository, with all that it depends on. */
  addInstalled(name: string): void {
    const folder = join(repository, 'node_modules', name)
    const manifest = JSON.parse(fs.readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest
    this.#pack(manifest, ['-C', folder, '--transform', 's,^\\.,package,', '.'])
    for (const each of Object.keys(manifest['dependencies'] ?? {}))
      if (!this.#packages.has(each)) this.addInstalled(each)
  }

  #pack(manifest: Manifest, args: string[]): void {
    const { status, stdout, stderr } = spawnSync('tar', ['-cz', '-f', '-', ...args], {
      maxBuffer: 64 * 1024 * 1024,
    })
    assert.equal(status, 0, stderr.toString())
    const versions = this.#packages.get(manifest.name) ?? []
    this.#packages.set(manifest.name, [...versions, { manifest, tarball: stdout }])
  }

  async open(): Promise<void> {
    const server = createServer((request, answer) => {
      this.requests++
      const [name = '', version] = decodeURIComponent(request.url!.slice(1)).split('/-/')
      const versions = this.#packages.get(name)
      if (!versions) return void answer.writeHead(404, { 'content-type': 'application/json' }).end('{}')
      const tarball = versions.find(each => each.manifest.version === version)?.tarball
      if (tarball) return void answer.end(tarball)
      answer.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(this.#describe(name)))
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    this.#server = server
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  }

  #describe(name: string): object {
    const versions = this.#packages.get(name)!
    return {
      name,
      'dist-tags': { latest: versions.at(-1)!.manifest.version },
      versions: Object.fromEntries(
        versions.map(({ manifest, tarball }) => [
          manifest.version,
          {
            ...manifest,
            ...(manifest['scripts'] !== undefined && { hasInstallScript: true }),
            dist: {
              tarball: `${this.url}${encodeURIComponent(name)}/-/${manifest.version}`,
              integrity: `sha512-${createHash('sha512').update(tarball).digest('base64')}`,
              shasum: createHash('sha1').update(tarball).digest('hex'),
            },
          },
        ]),
      ),
    }
  }

  async close(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    if (!server) return
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
  }

  remove(): void {
    fs.rmSync(this.#folder, { recursive: true, force: true })
  }
}
