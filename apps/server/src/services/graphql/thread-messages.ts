// Messages between the platform and a thread that plans requests for large schemas. A thread has one message at a time.
import type { DocumentRequest, EngineOptions, PlannedRequest } from './engine.ts'

export type ToThread = { readonly engine: string } & (
  | {
      readonly kind: 'open'
      /** The rows of both catalogue queries, as lines. */
      readonly catalog: Uint8Array
      readonly reflection: Uint8Array
      /** Of the catalogue that the engine is for. */
      readonly version: number
      readonly options: EngineOptions
      readonly schemas: readonly string[]
    }
  | { readonly kind: 'plan'; readonly request: DocumentRequest }
  | { readonly kind: 'print' }
)

export type FromThread =
  | { readonly result: PlannedRequest | string | undefined }
  /** Messages for the client. */
  | { readonly problem: readonly string[] }
  | { readonly isUnknownEngine: true }
  | { readonly failure: string }
