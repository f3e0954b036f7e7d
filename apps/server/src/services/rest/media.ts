// Chooses how an answer is represented: by a function or an aggregate of the project that returns a domain with the name of
// a media type, or by what is built in. The rules are those of PostgREST.
import { Refusal } from '#src/kernel/errors.ts'
import type { Sliced } from '#src/kernel/slices.ts'
import type { Catalog, Handler, Relation, Routine } from '#src/query/catalog.ts'
import type { RowsQuery } from '#src/query/items.ts'
import type { Accepted, Choice, Media } from './accept.ts'
import { sliceBytes } from './json-scan.ts'

/** The representation of rows. An aggregate over whole rows needs all columns, in their order. */
export function mediaOfRows(
  catalog: Catalog,
  relation: Relation | undefined,
  { select }: RowsQuery,
  accepted: Accepted,
): Media {
  const isWhole = select.length === 1 && select[0]!.kind === 'star'
  const own = isWhole ? relation?.handlers : undefined
  return choose(accepted, choice => {
    const type = nameOf(choice)
    const handler = own?.get(any) ?? own?.get(type)
    if (handler) return handled(handler, true, own!.has(any) ? choice.type : type)
    const general = catalog.handlers.get(type)
    return general && handled(general, false, type)
  })
}

/** The representation of a value that is no row. */
export function mediaOfValue(catalog: Catalog, { media }: Routine, accepted: Accepted): Media {
  return choose(accepted, choice => {
    const type = nameOf(choice)
    if (media && (media.type === any || media.type === type)) {
      const contentType = contentTypeOf(media.type === any ? choice.type : type, media.isBinary)
      return { form: { kind: 'value', isBinary: media.isBinary }, contentType }
    }
    const general = catalog.handlers.get(type)
    return general && handled(general, false, type)
  })
}

const any = '*/*'

/** A client that accepts anything gets JSON, unless a handler takes anything. */
const nameOf = ({ type }: Choice): string =>
  type === any || type === 'application/*' ? 'application/json' : type

const handled = (by: Handler, takesRow: boolean, type: string): Media => ({
  form: { kind: 'handled', by, takesRow },
  contentType: contentTypeOf(type, by.isBinary),
})

function contentTypeOf(type: string, isBinary: boolean): string {
  if (type.includes('*')) return 'application/octet-stream'
  return !isBinary && /^(?:text\/|application\/json$)/.test(type) ? `${type}; charset=utf-8` : type
}

function choose({ choices }: Accepted, handlerOf: (choice: Choice) => Media | undefined): Media {
  for (const choice of choices) {
    const media = (choice.isVendor ? undefined : handlerOf(choice)) ?? choice.builtIn
    if (media) return media
  }
  const types = choices.map(({ type }) => type).join(', ')
  throw new Refusal('PGRST107', `None of these media types are available: ${types.slice(0, 200)}`, {
    hint: 'Ask for application/json, application/vnd.pgrst.object+json or text/csv.',
  })
}

export const isBinary = ({ form }: Media): boolean =>
  (form.kind === 'handled' && form.by.isBinary) || (form.kind === 'value' && form.isBinary)

/** The bytes that Postgres sent in hexadecimal digits. */
export function* bytesFrom(hex: Buffer): Sliced<Buffer> {
  const bytes = Buffer.allocUnsafe(hex.length / 2)
  for (let at = 0; at < hex.length; at += sliceBytes) {
    if (at > 0) yield
    bytes.write(hex.toString('latin1', at, at + sliceBytes), at / 2, 'hex')
  }
  return bytes
}
