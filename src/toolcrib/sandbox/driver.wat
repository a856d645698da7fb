;; The steps of a run, beside the guest and in its memory: one call of the host instead of a dozen.
;; The names in braces are filled in from the image. A value of JavaScript is an i64 that only the guest understands.
(module
  (import "guest" "memory" (memory 1))
  (import "guest" "JS_ParseJSON" (func $parse (param i32 i32 i32 i32) (result i64)))
  (import "guest" "JS_Eval" (func $eval (param i32 i32 i32 i32 i32) (result i64)))
  (import "guest" "JS_Call" (func $call (param i32 i64 i64 i32 i32) (result i64)))
  (import "guest" "JS_GetException" (func $exception (param i32) (result i64)))
  (import "guest" "JS_ExecutePendingJob" (func $job (param i32 i32) (result i32)))
  (import "guest" "JS_ToCStringLen2" (func $text (param i32 i32 i64 i32) (result i32)))

  (func $failed (param $value i64) (result i32)
    (i64.eq (i64.shr_s (local.get $value) (i64.const 32)) (i64.const {exception})))

  ;; Calls a function of the prelude with one value.
  (func $enter (param $entry i64) (param $value i64) (result i64)
    (i64.store (i32.const {scratch}) (local.get $value))
    (call $call (i32.const {context}) (local.get $entry) (i64.const {undefined}) (i32.const 1) (i32.const {scratch})))

  ;; Where the text of the value begins; its length is in the scratch. 0: there was no memory for it.
  (func $told (param $value i64) (result i32)
    (call $text (i32.const {context}) (i32.const {scratch}) (local.get $value) (i32.const 0)))

  ;; The prelude's answer to a piece of code, or {bad_setup} or {thrown} with an exception pending.
  (func (export "run") (param $code i32) (param $size i32) (param $setup i32) (param $length i32) (result i32)
    (local $value i64)
    (local.set $value
      (call $parse (i32.const {context}) (local.get $setup) (local.get $length) (i32.const {empty})))
    (if (call $failed (local.get $value)) (then (return (i32.const {bad_setup}))))
    (if (call $failed (call $enter (i64.const {begin}) (local.get $value))) (then (return (i32.const {bad_setup}))))
    (i32.store (i32.const {begun}) (i32.const 1))
    (local.set $value
      (call $eval (i32.const {context}) (local.get $code) (local.get $size) (i32.const {empty}) (i32.const 0)))
    (if (call $failed (local.get $value)) (then (return (i32.const {thrown}))))
    (local.set $value (call $enter (i64.const {finish}) (local.get $value)))
    (loop $jobs (br_if $jobs (call $job (i32.const {runtime}) (i32.const {scratch}))))
    (if (i64.eq (local.get $value) (i64.const {undefined}))
      (then (local.set $value (call $enter (i64.const {settled}) (i64.const {undefined})))))
    (if (call $failed (local.get $value)) (then (return (i32.const {thrown}))))
    (call $told (local.get $value)))

  ;; Whether a piece of code compiles: 0, or {thrown} with an exception pending.
  (func (export "compile") (param $code i32) (param $size i32) (result i32)
    (if (result i32) (call $failed
          (call $eval (i32.const {context}) (local.get $code) (local.get $size) (i32.const {empty}) (i32.const 32)))
      (then (i32.const {thrown}))
      (else (i32.const 0))))

  ;; The prelude's answer to the exception that is pending.
  (func (export "describe") (result i32)
    (local $answer i64)
    (local.set $answer (call $enter (i64.const {failed}) (call $exception (i32.const {context}))))
    (if (call $failed (local.get $answer)) (then (return (i32.const 0))))
    (call $told (local.get $answer))))
